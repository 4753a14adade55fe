# Two kinds of C++ in the extension, and the wall between them.

setup() { cd "$BATS_TEST_DIRNAME/../../extension/src"; }

@test "the server's headers are included by pg.hpp alone" {
    run grep --files-with-matches --extended-regexp '#include [<"](postgres\.h|fmgr\.h|(access|catalog|executor|miscadmin|nodes|storage|utils)/)' \
        --recursive --include='*.[ch]pp' .
    [ "$output" = ./pg.hpp ] || { echo "$output"; false; }
}

@test "core files see no file of the backend's" {
    run grep --extended-regexp '#include "(\.\./|pg\.hpp|compat\.hpp|guard\.hpp)' --recursive --include='*.[ch]pp' core
    [ -z "$output" ] || { echo "$output"; false; }
}
