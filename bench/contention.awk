# From the medians: for each setting a table of units/s, retries per unit and p99 at a few numbers of clients.

BEGIN { FS = "\t" }

/^#/ { next }

$3 == 1 || $3 == 8 || $3 == 32 {
    if (!($1 in known_setting)) { known_setting[$1]; settings[++setting_count] = $1 }
    if (!($2 in known_rows)) { known_rows[$2]; rows[++row_count] = $2 }
    if (!($4 in known_strategy)) { known_strategy[$4]; strategies[++strategy_count] = $4 }
    rate[$1, $2, $3, $4] = $5
    retries[$1, $2, $3, $4] = $8
    p99[$1, $2, $3, $4] = $10
}

END {
    for (s = 1; s <= setting_count; s++) {
        printf "\n**%s**\n\n", settings[s]
        header()
        for (r = 1; r <= row_count; r++)
            for (i = 1; i <= strategy_count; i++) line(settings[s], rows[r], strategies[i], i == 1)
    }
}

function header() {
    printf "|             |                            | units/s, 1 client | 8 clients | 32 clients | retries, 8 clients | 32 clients |"
    print " p99 ms, 1 client | 8 clients | 32 clients |"
    printf "|-------------|----------------------------|------------------:|----------:|-----------:|-------------------:|-----------:|"
    print "-----------------:|----------:|-----------:|"
}

function line(setting, products, strategy, first,    name) {
    name = first ? products (products == 1 ? " row" : " rows") : ""
    printf "| %-11s | %-26s | %17.0f | %9.0f | %10.0f | %18.2f | %10.2f | %16.2f | %9.2f | %10.2f |\n", name, strategy,
        rate[setting, products, 1, strategy], rate[setting, products, 8, strategy], rate[setting, products, 32, strategy],
        retries[setting, products, 8, strategy], retries[setting, products, 32, strategy],
        p99[setting, products, 1, strategy], p99[setting, products, 8, strategy], p99[setting, products, 32, strategy]
}
