# Help, man page, completion, docs/command.md: all there, and of one mind.

load helper

paths=(run lock claim lookup forget "token issue" "token redeem" next-id transition "machine dot" sweep stats in-flight backlog health http-test completion)

@test "help: every subcommand has examples; version is the extension's" {
    for path in "${paths[@]}"; do
        run --separate-stderr idem $path --help
        [ "$status" -eq 0 ]
        [[ "$output" == *"Examples:"*"idem $path"* ]]
        [ "$stderr" = "" ]
    done
    run idem --help
    [[ "$output" == *"Exit codes:"*"128+n"* ]]
    run idem --version
    [ "$output" = "$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" "$root/extension/idem.control")" ]
}

@test "man page: formats without a warning and has every subcommand and exit code" {
    idem manual >"$dir/idem.1"
    LC_ALL=C.UTF-8 run --separate-stderr groff -man -Tutf8 -ww -rF0 "$dir/idem.1"
    [ "$status" -eq 0 ]
    [ "$stderr" = "" ]
    local text
    text=$(LC_ALL=C.UTF-8 groff -man -Tascii -P-c -P-b -P-u "$dir/idem.1")
    for path in "${paths[@]}"; do [[ "$text" == *"$path [OPTION...]"* ]]; done
    for code in $(idem --help | sed -n '/^Exit codes/,/^$/s/^  \([0-9][^ ]*\) .*/\1/p'); do
        grep -qE "^ +${code/+/\\+}( |$)" <<<"$text"
    done
    if command -v man >/dev/null; then
        LC_ALL=C.UTF-8 MANROFFSEQ='' run --separate-stderr man --warnings=w -l "$dir/idem.1"
        [ "$status" -eq 0 ]
        [ "$stderr" = "" ]
    fi
}

# The words that bash offers for a line; the last word is the one to complete.
offered() {
    bash -c 'source <("$IDEM" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _idem; printf "%s\n" "${COMPREPLY[@]}"' _ "$@"
}

@test "completion: bash offers subcommands, options and values" {
    [ "$(offered idem cl)" = claim ]
    [ "$(offered idem token '' | grep -v '^-' | sort | xargs)" = "issue redeem" ]
    [ "$(offered idem run --on-f)" = --on-failure ]
    [ "$(offered idem run --on-failure c)" = complete ]
    [ "$(offered idem run --key '')" = "" ]
    [ "$(offered idem http-test --profile s)" = stripe ]
    [ "$(offered idem --dsn x swe)" = sweep ]
    [ "$(offered idem sweep --b)" = --batch ]
    [ "$(offered idem completion z)" = zsh ]
    [ "$(offered idem run --key k -- true --b)" = "" ]
    offered idem run --key k -- tru | grep -qx true
    # As the shell has it.
    [ "$(bash -c 'source <("$IDEM" completion bash); complete -p idem')" = "complete -o default -F _idem idem" ]
}

@test "completion: zsh takes the script and offers the same" {
    command -v zsh >/dev/null || skip "there is no zsh"
    idem completion zsh >"$dir/_idem"
    run zsh -fc "autoload -U compinit && compinit -D -u -d '$dir/dump' && source '$dir/_idem' && whence -w _idem && words=(idem swe) && COMP_WORDS=(idem swe) COMP_CWORD=1 && print \$_comps[idem]"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "_idem: function" ]]
    [[ "$output" == *_idem* ]]
    zsh -n "$dir/_idem"
}

@test "docs/command.md: lists the same exit codes and every subcommand" {
    idem --help | sed -n '/^Exit codes/,/^$/s/^  \([0-9][^ ]*\|other\)  *\(.*\)/| \1 | \2 |/p' >"$dir/codes"
    [ "$(wc -l <"$dir/codes")" -gt 10 ]
    while read -r line; do grep -qxF "$line" "$root/docs/command.md"; done <"$dir/codes"
    for path in "${paths[@]}"; do grep -q "idem $path" "$root/docs/command.md"; done
}
