# awk -f samples.awk -f figures.awk samples.tsv: a line for each contender of each case, in the columns that are named below. The ratio
# is the first contender's figure divided by its own.

BEGIN {
    FS = OFS = "\t"
    CONVFMT = OFMT = "%.6g"
    print "# group", "measure", "case", "contender", "median", "min", "max", "ratio", "min", "max"
}

{ read_sample() }

END {
    for (t = 1; t <= table_count; t++)
        for (c = 1; c <= cases[tables[t]]; c++) {
            case_of = case_at[tables[t], c]
            subject = case_of FS contender_at[case_of, 1]
            for (i = 1; i <= contenders[case_of]; i++) {
                contender = case_of FS contender_at[case_of, i]
                collect(contender, "")
                line = contender OFS figure(median) OFS figure(least) OFS figure(greatest)
                if (i > 1) {
                    collect(subject, contender)
                    line = line OFS figure(median) OFS figure(least) OFS figure(greatest)
                } else {
                    line = line OFS OFS OFS
                }
                print line
            }
        }
}

function figure(v) { return v == "" ? "" : sprintf("%.6g", v) }
