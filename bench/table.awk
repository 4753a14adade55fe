# Tables in Markdown. Rows are kept until the widths of their columns are known, so that the tables can be read on a terminal too.

# row(CELLS): separated by tabs; the first row is the heading.
function row(cells,    c, n, part) {
    n = split(cells, part, "\t")
    if (n > columns) columns = n
    rows++
    for (c = 1; c <= n; c++) {
        cell[rows, c] = part[c]
        if (length(part[c]) > width[c]) width[c] = length(part[c])
    }
}

# Prints them.
function flush(    r, c) {
    print_row(1)
    print_rule()
    for (r = 2; r <= rows; r++) print_row(r)
    for (r = 1; r <= rows; r++) for (c = 1; c <= columns; c++) delete cell[r, c]
    for (c = 1; c <= columns; c++) delete width[c]
    rows = columns = 0
}

function print_row(r,    c, line) {
    line = "|"
    for (c = 1; c <= columns; c++) line = line sprintf(" %-" (width[c] + 0) "s |", cell[r, c])
    print line
}

function print_rule(    c, dashes, line) {
    line = "|"
    for (c = 1; c <= columns; c++) {
        dashes = sprintf("%" (width[c] + 2) "s", "")
        gsub(/ /, "-", dashes)
        line = line dashes "|"
    }
    print line
}

# Of two numbers, or of one.
function range(least, greatest) { return least == greatest ? "" : number(least) " .. " number(greatest) }

function number(v,    digits) {
    if (v == "" || v == 0) return v
    if (v < 0.1) return sprintf("%.4f", v)
    if (v < 10) return sprintf("%.2f", v)
    if (v < 100) return sprintf("%.1f", v)
    digits = sprintf("%.0f", v)
    while (match(digits, /[0-9][0-9][0-9][0-9](,|$)/))
        digits = substr(digits, 1, RSTART) "," substr(digits, RSTART + 1)
    return digits
}
