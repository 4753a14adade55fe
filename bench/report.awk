# From targets.tsv and samples.tsv: the tables of one group (-v group=NAME), or what became of the targets (-v group=).
#
# The first contender of a case is the one the targets speak of. A ratio is taken within each round and its median shown:
# what slows the machine down for a while slows both sides of it.

BEGIN { FS = "\t" }

/^#/ || NF == 0 { next }

FILENAME ~ /targets/ {
    target = ++targets
    target_case[target] = $1 FS $2 FS $3
    target_against[target] = $4
    relation[target] = $5
    bound[target] = $6
    target_of[$1 FS $2 FS $3 FS ($4 == "-" ? "" : $4)] = target
    next
}

{
    was_run[$1]
    table = $1 FS $2
    case_of = table FS $3
    contender = case_of FS $4
    if (!(table in cases)) { tables[++table_count] = table; group_of[table] = $1; measure[table] = $2 }
    if (!(case_of in contenders)) { case_at[table, ++cases[table]] = case_of; case_name[case_of] = $3 }
    if (!(contender in rounds)) contender_at[case_of, ++contenders[case_of]] = $4
    value[contender, $5] = $6
    if ($5 > rounds[contender]) rounds[contender] = $5
}

END {
    if (group == "") summarize()
    else for (t = 1; t <= table_count; t++) if (group_of[tables[t]] == group) print_table(tables[t])
}

function summarize(    t, missed, reached, part) {
    row("group", "measure", "case", "against", "target", "measured", "min .. max", "")
    for (t = 1; t <= targets; t++) {
        split(target_case[t], part, FS)
        if (!(part[1] in was_run)) continue
        if (!(target_case[t] in contenders)) {
            row(part[1], part[2], part[3], target_against[t], relation[t] " " bound[t], "", "", "not measured")
            continue
        }
        judge(t)
        row(part[1], part[2], part[3], target_against[t], relation[t] " " bound[t], number(median), range(), verdict)
        if (verdict == "reached") reached++; else missed++
    }
    flush()
    printf "\n%d of %d targets reached.\n", reached, reached + missed
}

function print_table(table,    c, i, case_of, subject, name, middle, spread, t) {
    printf "\n**%s**\n\n", measure[table]
    row("", "", "median", "min .. max", "idem / it", "min .. max", "target", "")
    for (c = 1; c <= cases[table]; c++) {
        case_of = case_at[table, c]
        subject = contender_at[case_of, 1]
        for (i = 1; i <= contenders[case_of]; i++) {
            name = contender_at[case_of, i]
            collect(case_of FS name, "")
            middle = number(median)
            spread = range()
            collect(case_of FS subject, i > 1 ? case_of FS name : "")
            t = target_of[case_of FS (i > 1 ? name : "")]
            verdict = ""
            if (t) judge(t)
            row(i == 1 ? case_name[case_of] : "", name, middle, spread, i > 1 ? number(median) : "", i > 1 ? range() : "",
                t ? relation[t] " " bound[t] : "", verdict)
        }
    }
    flush()
}

# Sets median, verdict and what range() shows.
function judge(t) {
    collect(target_case[t] FS contender_at[target_case[t], 1],
            target_against[t] == "-" ? "" : target_case[t] FS target_against[t])
    verdict = (relation[t] == ">=" ? median >= bound[t] : median <= bound[t]) ? "reached" : "MISSED"
}

# Sorts the values of a contender, each divided by that of another in the same round if one is given.
function collect(contender, divisor,    r, i, v) {
    count = 0
    for (r = 1; r <= rounds[contender]; r++) {
        v = value[contender, r]
        if (divisor != "") {
            if (value[divisor, r] == 0) continue
            v /= value[divisor, r]
        }
        for (i = ++count; i > 1 && sorted[i - 1] > v; i--) sorted[i] = sorted[i - 1]
        sorted[i] = v + 0
    }
    median = count == 0 ? "" : count % 2 ? sorted[(count + 1) / 2] : (sorted[count / 2] + sorted[count / 2 + 1]) / 2
}

function range() { return count > 1 ? number(sorted[1]) " .. " number(sorted[count]) : "" }

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

# Rows are kept until the widths of their columns are known, so that the tables can be read on a terminal too.
function row(c1, c2, c3, c4, c5, c6, c7, c8) {
    rows++
    cell[rows, 1] = c1; cell[rows, 2] = c2; cell[rows, 3] = c3; cell[rows, 4] = c4
    cell[rows, 5] = c5; cell[rows, 6] = c6; cell[rows, 7] = c7; cell[rows, 8] = c8
}

function flush(    r, c, width) {
    for (c = 1; c <= 8; c++)
        for (r = 1; r <= rows; r++)
            if (length(cell[r, c]) > width[c]) width[c] = length(cell[r, c])
    print_row(1, width)
    print_rule(width)
    for (r = 2; r <= rows; r++) print_row(r, width)
    rows = 0
}

function print_row(r, width,    c, line) {
    line = "|"
    for (c = 1; c <= 8; c++) line = line sprintf(" %-" (width[c] + 0) "s |", cell[r, c])
    print line
}

function print_rule(width,    c, dashes, line) {
    line = "|"
    for (c = 1; c <= 8; c++) {
        dashes = sprintf("%" (width[c] + 2) "s", "")
        gsub(/ /, "-", dashes)
        line = line dashes "|"
    }
    print line
}
