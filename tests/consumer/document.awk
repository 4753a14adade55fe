# Takes the blocks of documents apart, into the directory OUT:
#   ```sql     setup.sql
#   ```cmake   CMakeLists.txt
#   ```sh      build.sh, if pkg-config is in it
#   ```cpp     that begins with "// NAME.cpp": NAME.cpp, a program; any other: a function in document.cpp, which main() calls
# Of the README only C++ is taken. Errors of the compiler name the document's lines.
BEGIN {
    snippets = OUT "/document.cpp"
    print "#include \"document.hpp\"" > snippets
}
/^```[a-z]+$/ {
    language = substr($0, 4)
    place = FILENAME ":" FNR + 1
    line = FNR + 1
    block = ""
    next
}
/^```$/ && language {
    if (language == "cpp" && match(block, /^\/\/ [a-z_]+\.cpp\n/))
        printf "%s", block > (OUT "/" substr(block, 4, RLENGTH - 4))
    else if (language == "cpp") {
        gsub(/#include[^\n]*/, "", block)
        db = block ~ /idem::client db[;{]/ ? "" : "db" # its own
        printf "static void block_%d([[maybe_unused]] idem::client &%s) {\n#line %d \"%s\"\n%s}\n", ++count, db, line, FILENAME, block > snippets
        calls = calls sprintf("    run(\"%s\", block_%d);\n", place, count)
    } else if (FILENAME == "README.md")
        ;
    else if (language == "sql")
        printf "%s", block > (OUT "/setup.sql")
    else if (language == "cmake")
        printf "%s", block > (OUT "/CMakeLists.txt")
    else if (language == "sh" && block ~ /pkg-config/)
        printf "%s", block > (OUT "/build.sh")
    language = ""
    next
}
language { block = block $0 "\n" }
END {
    printf "#line 1 \"document.cpp\"\nint main() {\n%s    return report();\n}\n", calls > snippets
}
