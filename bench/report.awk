# awk -v list=WHAT -f samples.awk -f table.awk -f report.awk targets.tsv reasons.tsv samples.tsv
#
#   list=GROUP      the tables of one group
#   list=           what became of the targets, and why some were missed

BEGIN { FS = "\t" }

/^#/ || NF == 0 { next }

FILENAME ~ /targets\.tsv$/ {
    target = ++targets
    target_case[target] = $1 FS $2 FS $3
    target_against[target] = $4
    relation[target] = $5
    bound[target] = $6
    target_of[$1 FS $2 FS $3 FS ($4 == "-" ? "" : $4)] = target
    next
}

FILENAME ~ /reasons\.tsv$/ {
    reason = ++reasons
    reason_group[reason] = $1
    reason_measure[reason] = $2
    reason_case[reason] = $3
    reason_against[reason] = $4
    reason_text[reason] = $5
    next
}

{ read_sample() }

END {
    if (list == "") summarize()
    else for (t = 1; t <= table_count; t++) if (group_of[tables[t]] == list) print_table(tables[t])
}

function summarize(    t, i, missed, reached) {
    row("group\tmeasure\tcase\tagainst\ttarget\tmeasured\tmin .. max\t")
    for (t = 1; t <= targets; t++) {
        if (!judge(t)) continue
        row(target_case[t] FS target_against[t] FS relation[t] " " bound[t] FS number(median) FS range(least, greatest) FS \
            (verdict == "MISSED" ? verdict reason_for(t) : verdict))
        if (verdict == "reached") reached++; else missed++
    }
    if (rows > 1) flush()
    printf "\n%d of %d targets reached.", reached, reached + missed
    if (targets > reached + missed) printf " %d more are not measured by this kind of run.", targets - reached - missed
    print ""
    if (shown) print "\nThe reasons for the misses ([performance-notes.md](performance-notes.md) has the details):\n"
    for (i = 1; i <= shown; i++) printf "%d. %s\n", i, shown_text[i]
}

# Numbered in the order in which they are used. Without any, a miss that some rounds reached and others did not is told from one that
# all rounds saw.
function reason_for(t,    part, i) {
    split(target_case[t], part, FS)
    for (i = 1; i <= reasons; i++)
        if (reason_group[i] == part[1] && part[2] ~ ("^(" reason_measure[i] ")$") && part[3] ~ ("^(" reason_case[i] ")$") &&
            target_against[t] ~ ("^(" reason_against[i] ")$")) {
            if (!(reason_text[i] in number_of)) { number_of[reason_text[i]] = ++shown; shown_text[shown] = reason_text[i] }
            return " (" number_of[reason_text[i]] ")"
        }
    return least < bound[t] && greatest > bound[t] ? ", rounds on both sides" : ", reason not known"
}

function print_table(table,    c, i, case_of, subject, name, figures, t) {
    printf "\n**%s**\n\n", measure[table]
    row("\t\tmedian\tmin .. max\tidem / it\tmin .. max\ttarget\t")
    for (c = 1; c <= cases[table]; c++) {
        case_of = case_at[table, c]
        subject = contender_at[case_of, 1]
        for (i = 1; i <= contenders[case_of]; i++) {
            name = contender_at[case_of, i]
            collect(case_of FS name, "")
            figures = name FS number(median) FS range(least, greatest)
            if (i > 1) {
                collect(case_of FS subject, case_of FS name)
                figures = figures FS number(median) FS range(least, greatest)
            } else {
                figures = figures FS FS
            }
            t = target_of[case_of FS (i > 1 ? name : "")]
            if (t) judge(t)
            row((i == 1 ? case_name[case_of] : "") FS figures FS (t ? relation[t] " " bound[t] FS verdict : FS))
        }
    }
    flush()
}

# Sets median, least, greatest and verdict; false if the target was not measured.
function judge(t,    against) {
    if (!(target_case[t] in contenders)) return 0
    against = target_case[t] FS target_against[t]
    if (target_against[t] != "-" && !(against in rounds)) return 0
    collect(target_case[t] FS contender_at[target_case[t], 1], target_against[t] == "-" ? "" : against)
    if (median == "") return 0
    verdict = (relation[t] == ">=" ? median >= bound[t] : median <= bound[t]) ? "reached" : "MISSED"
    return 1
}
