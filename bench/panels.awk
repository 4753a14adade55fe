# awk -v group=NAME -v measures=REGEX -v names=FILE -f panels.awk FIGURES: the data of a plot with a panel for each measure, from a file
# of figures.awk. A block of lines for each panel, a line for each case: the number the case begins with, then median, least
# and greatest of each contender. FILE gets what gnuplot is to write beside them.

BEGIN { FS = OFS = "\t" }

/^#/ || $1 != group || $2 !~ measures { next }

{
    if (!($2 in cases)) measure[++panels] = $2
    if (!(($2, $3) in known)) { known[$2, $3]; case_at[$2, ++cases[$2]] = $3 }
    if (cases[$2] > most) most = cases[$2]
    if (!($4 in seen)) { seen[$4]; contender[++contenders] = $4 }
    figure[$2, $3, $4] = $5 OFS $6 OFS $7
}

END {
    if (!panels) exit
    printf "panels = %d\ncontenders = %d\nmost = %d\n", panels, contenders, most >names
    printf "array title[%d]\narray contender[%d]\narray cases[%d]\narray present[%d]\narray label[%d]\n",
        panels, contenders, panels, panels, panels * most >names
    for (i = 1; i <= contenders; i++) printf "contender[%d] = \"%s\"\n", i, contender[i] >names
    for (p = 1; p <= panels; p++) {
        m = measure[p]
        printf "title[%d] = \"%s\"\ncases[%d] = %d\n", p, m, p, cases[m] >names
        present = ""
        for (c = 1; c <= cases[m]; c++) {
            text = case_at[m, c]
            line = size(text)
            gsub(/, /, "\\n", text)
            printf "label[%d] = \"%s\"\n", (p - 1) * most + c, text >names
            for (i = 1; i <= contenders; i++) {
                key = m SUBSEP case_at[m, c] SUBSEP contender[i]
                if (key in figure && index(present " ", " " i " ") == 0) present = present " " i
                line = line OFS (key in figure ? figure[key] : "NaN" OFS "NaN" OFS "NaN")
            }
            print line
        }
        printf "present[%d] = \"%s\"\n", p, present >names
        print "\n"
    }
}

function size(text,    number) {
    gsub(/,/, "", text)
    number = text + 0
    if (text ~ /^[0-9.]+ (M|million) /) number *= 1000000
    return number
}
