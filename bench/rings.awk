# What a claim costs among so many keys: a table for docs/rings.md, from the samples of the group rings. Rates become times.
#
# awk -f samples.awk -f table.awk -f rings.awk SAMPLES

BEGIN { FS = OFS = "\t" }

!/^#/ && $1 == "rings" { read_sample(); if (!($3 in seen)) { seen[$3]; size[++sizes] = $3 } }

END {
    split("ring empty_ring no_ring raw_on_conflict raw_partitioned", of, " ")
    row("" OFS "keys" OFS "ring" OFS "empty ring" OFS "idem without one" OFS "raw" OFS "raw, by day")
    line("µs for a new key", "fresh claims/s, 1 client, one processor", 1e6, "%.0f")
    line("µs for a new key, the open window half full", "fresh claims/s, open window half full, 1 client, one processor", 1e6, "%.0f")
    line("µs for a new key in batches of 10,000", "fresh keys/s, 10000 keys a call", 1e6, "%.1f")
    line("µs for a duplicate", "duplicate claims/s, 1 client, one processor", 1e6, "%.0f")
    line("bytes of WAL for a new key after a checkpoint", "WAL bytes per fresh key after a checkpoint, open window new", 0, "%.0f")
    line("the same, the open window half full", "WAL bytes per fresh key after a checkpoint, open window half full", 0, "%.0f")
    line("bytes of disk a key", "bytes per key, tables, indexes and filter", 0, "%.0f")
    line("bytes of filter a key", "bytes per key, filter", 0, "%.1f")
    line("false positives in a sealed window, %", "share of false positives in a sealed window", -100, "%.2f")
    line("s to empty a window", "s until a full window is empty", 0, "%.2f")
    flush()
}

# line(NAME, MEASURE, UNIT, FORMAT): a row for each number of keys. `UNIT` over 0: what to divide by the rate; under 0: what to multiply with, negated.
function line(name, measure, unit, format,    s, c, cells, key) {
    for (s = 1; s <= sizes; s++) {
        cells = (s == 1 ? name : "") OFS size[s]
        sub(/ keys$/, "", cells)
        for (c = 1; c <= 5; c++) {
            key = "rings" FS measure FS size[s] FS of[c]
            if (!(key in rounds)) { cells = cells OFS; continue }
            collect(key, "")
            cells = cells OFS sprintf(format, unit > 0 ? unit / median : unit < 0 ? -unit * median : median)
        }
        row(cells)
    }
}
