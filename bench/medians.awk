# From the runs of idem-bench-contention: a line for each setting, number of products, of clients, and strategy, with medians
# over the rounds, and the least and greatest throughput.

BEGIN {
    FS = OFS = "\t"
    print "# setting", "products", "clients", "strategy", "units/s", "least", "greatest", "retries per unit", "median ms", "p99 ms"
}

{
    cell = $1 FS $2 FS $3 FS $4
    if (!(cell in runs)) cells[++count] = cell
    run = ++runs[cell]
    for (column = 6; column <= 9; column++) value[cell, column, run] = $column
}

END {
    for (i = 1; i <= count; i++) {
        cell = cells[i]
        rate = median(6)
        least = sorted[1]
        greatest = sorted[runs[cell]]
        print cell, rate, least, greatest, median(7), median(8), median(9)
    }
}

# Leaves them in `sorted`.
function median(column,    n, i, r, v) {
    n = runs[cell]
    for (r = 1; r <= n; r++) {
        v = value[cell, column, r] + 0
        for (i = r; i > 1 && sorted[i - 1] > v; i--) sorted[i] = sorted[i - 1]
        sorted[i] = v
    }
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}
