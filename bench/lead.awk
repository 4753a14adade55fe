# awk -f lead.awk LEAD FIGURES: the lines of bench/lead.tsv with the figures of this run, as a list. FIGURES is a file of figures.awk.

BEGIN { FS = "\t" }

/^#/ { next }

FILENAME == ARGV[1] {
    line[++lines] = $5
    case_of[lines] = $1 FS $2 FS $3
    against[lines] = $4
    next
}

{
    id = $1 FS $2 FS $3
    if (!(id in first)) first[id] = $5
    ratio[id, $4] = $8
}

function grouped(n,    text) {
    text = sprintf("%.0f", n)
    while (text ~ /[0-9][0-9][0-9][0-9]/) sub(/[0-9][0-9][0-9](,|$)/, ",&", text)
    return text
}

END {
    for (i = 1; i <= lines; i++) {
        if (!((case_of[i], against[i]) in ratio)) continue
        gsub(/\{rate\}/, grouped(first[case_of[i]]), line[i])
        gsub(/\{ratio\}/, sprintf("%.2f", ratio[case_of[i], against[i]]), line[i])
        print "- " line[i]
    }
}
