# awk -f table.awk -f compare.awk BEFORE NOW: which ratios of two runs differ, and how many agree. Both are files of figures.awk.

BEGIN { FS = "\t"; tolerance = 0.15 }

/^#/ || $8 == "" { next }

{ ratio_of = $1 FS $2 FS $3 FS $4 }

FILENAME == ARGV[1] {
    before[ratio_of] = $8; least[ratio_of] = $9; greatest[ratio_of] = $10
    gone++
    next
}

!(ratio_of in before) { fresh++; next }

{
    gone--
    compared++
    larger = $8 > before[ratio_of] ? $8 : before[ratio_of]
    difference = $8 - before[ratio_of]
    if (difference < 0) difference = -difference
    if (difference <= tolerance * larger) { agree++; next }
    if (!differ++) row("group\tmeasure\tcase\tidem / it\tbefore\tmin .. max\tnow\tmin .. max\tranges")
    row(ratio_of FS number(before[ratio_of]) FS range(least[ratio_of], greatest[ratio_of]) FS number($8) FS range($9, $10) FS \
        ($9 > greatest[ratio_of] || $10 < least[ratio_of] ? "apart" : "overlap"))
}

END {
    printf "%d of %d ratios are within %d %% (of the larger) of what they were", agree, compared, tolerance * 100
    print differ ? "; these are not:\n" : "."
    if (differ) flush()
    if (fresh + gone) printf "\nOnly one of the two runs has %d more.\n", fresh + gone
}
