# What becomes of a benchmark's samples, with samples made up: figures, targets, reasons, the comparison of two runs.

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    cd "$BATS_TEST_TMPDIR"
    tsv >samples.tsv <<'TSV'
claim|fresh/s|8 clients|idem|1|100
claim|fresh/s|8 clients|raw|1|50
claim|fresh/s|8 clients|idem|2|90
claim|fresh/s|8 clients|raw|2|100
claim|fresh/s|8 clients|idem|3|40
claim|fresh/s|8 clients|raw|3|50
try|ms|p99|idem|1|4
TSV
    tsv >targets.tsv <<'TSV'
# group|measure|case|against|relation|bound
claim|fresh/s|8 clients|raw|>=|0.95
claim|fresh/s|8 clients|raw|<=|1.5
claim|fresh/s|99 clients|raw|>=|0.95
claim|fresh/s|8 clients|redis|>=|0.95
try|ms|p99|-|<=|5
TSV
    : >reasons.tsv
}

tsv() { tr '|' '\t'; }

# Tables with their blanks squeezed.
report() {
    awk -v list="$1" -f "$root/bench/samples.awk" -f "$root/bench/table.awk" -f "$root/bench/report.awk" targets.tsv reasons.tsv samples.tsv |
        tr -s ' -'
}

figures() { awk -f "$root/bench/samples.awk" -f "$root/bench/figures.awk" samples.tsv; }

plotted() { figures >figures.tsv && awk -f "$root/bench/targets.awk" targets.tsv figures.tsv; }

compare() { awk -f "$root/bench/table.awk" -f "$root/bench/compare.awk" before.tsv now.tsv | tr -s ' -'; }

has_line() { grep -qxF -- "$1" <<<"$output" || { echo "missing: $1"; echo "$output"; return 1; }; }

@test "figures: medians, and ratios taken round by round" {
    run figures
    has_line "$(tsv <<<'claim|fresh/s|8 clients|idem|90|40|100|||')"
    has_line "$(tsv <<<'claim|fresh/s|8 clients|raw|50|50|100|0.9|0.8|2')"
    has_line "$(tsv <<<'try|ms|p99|idem|4|4|4|||')"
}

@test "figures: a round without the other's figure has no ratio" {
    sed -i 's/raw\t2\t100/raw\t2\t0/' samples.tsv
    run figures
    has_line "$(tsv <<<'claim|fresh/s|8 clients|raw|50|0|50|1.4|0.8|2')"
}

@test "targets: reached or missed; what was not measured is counted" {
    run report ''
    has_line '| claim | fresh/s | 8 clients | raw | >= 0.95 | 0.90 | 0.80 .. 2.00 | MISSED, rounds on both sides |'
    has_line '| claim | fresh/s | 8 clients | raw | <= 1.5 | 0.90 | 0.80 .. 2.00 | reached |'
    has_line '| try | ms | p99 | - | <= 5 | 4.00 | | reached |'
    has_line '2 of 3 targets reached. 2 more are not measured by this kind of run.'
    [[ "$output" != *'99 clients'* ]]
}

@test "targets: missed in every round, without a reason" {
    sed -i 's/0.95/2.5/' targets.tsv
    run report ''
    has_line '| claim | fresh/s | 8 clients | raw | >= 2.5 | 0.90 | 0.80 .. 2.00 | MISSED, reason not known |'
}

@test "targets: a reason is named for what was missed, once" {
    sed -i 's/<=\t1.5/>=\t0.99/' targets.tsv
    tsv >reasons.tsv <<'TSV'
# group|measure|case|against|why
claim|fresh|.*|raw|A part of the measure does not fit.
claim|fresh/.|[0-9]+ clients|r.w|Because.
try|ms|p99|-|It was reached.
TSV
    run report ''
    has_line '| claim | fresh/s | 8 clients | raw | >= 0.95 | 0.90 | 0.80 .. 2.00 | MISSED (1) |'
    has_line '| claim | fresh/s | 8 clients | raw | >= 0.99 | 0.90 | 0.80 .. 2.00 | MISSED (1) |'
    has_line '1. Because.'
    [ "$(grep -c '^[0-9]*\. ' <<<"$output")" -eq 1 ]
}

@test "targets: for the plot more is better, and 1 is the bound" {
    sed -i '1,2d' targets.tsv
    run plotted
    has_line "$(tsv <<<'1.6667|0.7500|1.8750|reached|claim: fresh/s, 8 clients / raw')"
    has_line "$(tsv <<<'1.2500|1.2500|1.2500|reached|try: ms, p99')"
    [ "$(wc -l <<<"$output")" -eq 2 ]
}

@test "plots: a panel for each measure that matches, NaN for who did not run, nothing for a group that was not run" {
    tsv >>samples.tsv <<'TSV'
claim|duplicate/s|1 M keys, bound|idem|1|7
claim|bytes|1 M keys|idem|1|7
TSV
    figures >figures.tsv
    panels() { awk -v group="$1" -v measures='/s$' -v names=names.gnuplot -f "$root/bench/panels.awk" figures.tsv; }
    run panels claim
    has_line "$(tsv <<<'8|90|40|100|50|50|100')"
    has_line "$(tsv <<<'1000000|7|7|7|NaN|NaN|NaN')"
    grep -qx 'panels = 2' names.gnuplot
    grep -qx 'label\[2\] = "1 M keys\\nbound"' names.gnuplot
    panels claim >panels.tsv
    [ "$(panels growth)" = '' ]
    command -v gnuplot || skip 'there is no gnuplot'
    for kind in bars lines; do
        run gnuplot -c "$root/bench/$kind.gnuplot" panels.tsv names.gnuplot "$kind.svg" 'live keys'
        [ "$output" = '' ]
        grep -q 'duplicate/s' "$kind.svg"
    done
    plotted >targets.plot
    run gnuplot -c "$root/bench/targets.gnuplot" targets.plot targets.svg
    [ "$output" = '' ]
    grep -q 'claim: fresh/s, 8 clients / raw' targets.svg
}

@test "plots: each that a page shows is drawn from the figures beside it" {
    command -v gnuplot || skip 'there is no gnuplot'
    "$root/bench/plots.sh" drawn
    [ "$(cd drawn && LC_ALL=C ls)" = "$(cd "$root" && grep -rhoP '<!-- plot \K[\w-]+|plots/\K[\w-]+(?=\.svg\))' --include='*.md' README.md docs | sed 's/$/.svg/' | LC_ALL=C sort -u)" ]
    [ -z "$(grep --files-without-match '<path' drawn/*.svg)" ]
}

@test "tables: of one group alone" {
    run report try
    has_line '**ms**'
    has_line '| p99 | idem | 4.00 | | | | <= 5 | reached |'
    [[ "$output" != *claim* ]]
}

@test "comparison: what differs by more than 15 % of the larger is listed, the rest is counted" {
    tsv >before.tsv <<'TSV'
# run|make bench
claim|fresh/s|1 client|idem|100|100|100|||
claim|fresh/s|1 client|raw|100|100|100|1|0.9|1.1
claim|fresh/s|8 clients|raw|100|100|100|1|0.9|1.1
claim|fresh/s|9 clients|raw|100|100|100|1|0.9|1.1
try|ms|p99|raw|1|1|1|2|2|2
gone|ms|p99|raw|1|1|1|2|2|2
TSV
    sed -e 's/\(1 client\traw.*\)1\t0.9\t1.1/\10.86\t0.8\t0.95/' -e 's/\(8 clients\traw.*\)1\t0.9\t1.1/\10.84\t0.8\t0.89/' \
        -e 's/\(9 clients\traw.*\)1\t0.9\t1.1/\11.19\t1.05\t1.2/' -e 's/^gone/new/' before.tsv >now.tsv
    run compare
    has_line '2 of 4 ratios are within 15 % (of the larger) of what they were; these are not:'
    has_line '| claim | fresh/s | 8 clients | raw | 1.00 | 0.90 .. 1.10 | 0.84 | 0.80 .. 0.89 | apart |'
    has_line '| claim | fresh/s | 9 clients | raw | 1.00 | 0.90 .. 1.10 | 1.19 | 1.05 .. 1.20 | overlap |'
    has_line 'Only one of the two runs has 2 more.'
    [[ "$output" != *'1 client |'* && "$output" != *try* ]]
}

@test "comparison: a run with itself agrees" {
    figures >before.tsv
    cp before.tsv now.tsv
    run compare
    [ "$output" = '1 of 1 ratios are within 15 % (of the larger) of what they were.' ]
}

@test "comparison: only with a run of the same kind on the same machine" {
    ONLY='' scratch=$BATS_TEST_TMPDIR
    source "$root/bench/report.sh"
    cd "$root"
    figures_before=$BATS_TEST_TMPDIR/before.tsv
    [ -z "$(beside_the_run_before)" ]
    tsv >"$figures" <<'TSV'
# run|make bench
# date|2026-01-02
# machine|large
TSV
    cp "$figures" "$figures_before"
    [[ "$(beside_the_run_before)" == *'on 2026-01-02. 0 of 0 ratios'* ]]
    sed -i 's/large/small/' "$figures"
    [[ "$(beside_the_run_before)" == *'on another machine'* ]]
    sed -i 's/make bench/& QUICK=1/' "$figures"
    [[ "$(beside_the_run_before)" == *'was `make bench`: it is not compared.' ]]
}

@test "targets.tsv and reasons.tsv: no two targets are the same, every line is whole" {
    cd "$root/bench"
    run awk -F '\t' '!/^#/ && (NF != 6 || $5 !~ /^[<>]=$/ || seen[$1, $2, $3, $4]++)' targets.tsv
    [ "$output" = '' ]
    run awk -F '\t' '!/^#/ && NF != 5' reasons.tsv
    [ "$output" = '' ]
    # A reason for a target that there is.
    run awk -F '\t' '/^#/ {next}
        FILENAME ~ /targets/ {group[++n] = $1; measure[n] = $2; case_of[n] = $3; against[n] = $4; next}
        {for (i = 1; i <= n; i++) if (group[i] == $1 && measure[i] ~ "^(" $2 ")$" && case_of[i] ~ "^(" $3 ")$" && against[i] ~ "^(" $4 ")$") next; print}' \
        targets.tsv reasons.tsv
    [ "$output" = '' ]
}

@test "lead: what was measured is put into sentences, and nothing else" {
    tsv >lead.tsv <<'TSV'
# group|measure|case|against|line
claim|fresh/s|8 clients|raw|{rate} claims, {ratio} times as many.
claim|fresh/s|99 clients|raw|Never {rate}.
TSV
    figures >figures.tsv
    sed -i 's/\tidem\t90\t/\tidem\t1234567.8\t/' figures.tsv
    run awk -f "$root/bench/lead.awk" lead.tsv figures.tsv
    [ "$output" = '- 1,234,568 claims, 0.90 times as many.' ]
}

@test "lead: each line names a case and a contender that a target names, too" {
    run awk -F '\t' 'FILENAME == ARGV[1] {is_target[$1, $2, $3, $4]; next} !/^#/ && !(($1, $2, $3, $4) in is_target)' "$root/bench/targets.tsv" "$root/bench/lead.tsv"
    [ -z "$output" ]
}

@test "contenders: each section becomes a file, without the blank lines after it" {
    mkdir list
    printf -- '--- schema.sql\nCREATE TABLE t ();\n\nCREATE INDEX i ON t ();\n\n--- many/one.sql\nSELECT 1;\n' >list/claim.sql
    printf -- '--- schema.sql\nSELECT 2;\n' >list/ids.sql
    awk -v to=to -f "$root/bench/contenders.awk" list/*.sql
    [ "$(grep -r '' to | sort)" = "$(printf '%s\n' to/claim/many/one.sql:'SELECT 1;' to/claim/schema.sql: to/claim/schema.sql:'CREATE INDEX i ON t ();' \
        to/claim/schema.sql:'CREATE TABLE t ();' to/ids/schema.sql:'SELECT 2;' | sort)" ]
}

@test "contenders: each that a group names by its whole name is there" {
    awk -v to=to -f "$root/bench/contenders.awk" "$root"/bench/contenders/*.sql
    run grep -rhoE '\$contenders/[a-z0-9_/]+\.(sql|txt|lua)' "$root/bench"
    [ "${#lines[@]}" -gt 40 ]
    for file in "${lines[@]}"; do [ -s "to/${file#*/}" ] || { echo "$file"; return 1; }; done
}
