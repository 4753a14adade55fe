# Reads samples.tsv: group, measure, case, contender, round, value. The first contender of a case is the one that the others are
# compared with. A ratio is taken within each round and its median shown: what slows the machine down for a while slows both
# sides of it.

function read_sample(    table, case_of, contender) {
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

# Sorts the values of a contender, each divided by that of another in the same round if one is given. Sets median, least and greatest.
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
    least = count == 0 ? "" : sorted[1]
    greatest = count == 0 ? "" : sorted[count]
}
