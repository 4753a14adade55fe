# awk -f targets.awk targets.tsv FIGURES: a line for each target that was measured, for the plot: ratio to the bound (more is better, 1 reaches
# it), least, greatest, verdict, what it is. FIGURES is a file of figures.awk.

BEGIN { FS = OFS = "\t" }

/^#/ || NF == 0 { next }

FILENAME ~ /targets\.tsv$/ {
    target = ++targets
    target_case[target] = $1 FS $2 FS $3
    against[target] = $4
    relation[target] = $5
    bound[target] = $6
    next
}

# The first contender of a case is the one that has targets.
!(($1 FS $2 FS $3 FS "-") in median) { keep("-", 5) }
$8 != "" { keep($4, 8) }

END { for (t = 1; t <= targets; t++) show(t, target_case[t] FS against[t]) }

function keep(contender, column,    figure) {
    figure = $1 FS $2 FS $3 FS contender
    median[figure] = $column
    least[figure] = $(column + 1)
    greatest[figure] = $(column + 2)
}

function show(t, figure,    m) {
    m = median[figure]
    if (m + 0 == 0) return
    if (relation[t] == ">=")
        line(m >= bound[t], m / bound[t], least[figure] / bound[t], greatest[figure] / bound[t], t)
    else
        line(m <= bound[t], bound[t] / m, bound[t] / greatest[figure], bound[t] / (least[figure] + 0 ? least[figure] : m), t)
}

function line(is_reached, ratio, low, high, t) {
    print sprintf("%.4f", ratio), sprintf("%.4f", low), sprintf("%.4f", high), is_reached ? "reached" : "MISSED", name_of(t)
}

function name_of(t,    name, part) {
    split(target_case[t], part, FS)
    name = part[1] ": " part[2] ", " part[3] (against[t] == "-" ? "" : " / " against[t])
    sub(/1 client, one processor/, "1 client bound", name)
    sub(/, synchronous_commit=on/, ", flushed", name)
    sub(/, synchronous_commit=off/, ", not flushed", name)
    return name
}
