# awk -v to=DIRECTORY -f contenders.awk bench/contenders/*.sql: writes each section of GROUP.sql, which a line "--- NAME" begins, into
# DIRECTORY/GROUP/NAME.

FNR == 1 {
    group = FILENAME
    gsub(/^.*\/|\.sql$/, "", group)
    blank = ""
}

/^--- / {
    if (out) close(out)
    out = to "/" group "/" $2
    directory = out
    sub(/\/[^\/]*$/, "", directory)
    system("mkdir -p '" directory "'")
    blank = ""
    next
}

# Blank lines between sections are of none.
!NF { blank = blank "\n"; next }

{ printf "%s%s\n", blank, $0 >out; blank = "" }
