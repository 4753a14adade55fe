#!/usr/bin/env bash
# Looks for English that readers stumble over, in the documents, the comments of sql/, extension/src, client and integrations, and the command's help. The
# rules are few: the subject comes first and is a noun, and no word is older than the field.
#
#   lint-english.sh [FILE ...]    these files, or all; prints FILE:LINE: what was found, and what to write instead
#
# Code, in blocks and between backquotes, is not checked; of C++, JavaScript, TypeScript, Java and Python, only comments and docstrings are. Generated pages and the history are left out. Pages that scripts/narrow-pages names keep to 100
# columns, but for tables, code, and a line that is one word.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.md' 'sql/*.sql' 'extension/src/*.[ch]pp' \
        'client/src/*.[ch]pp' 'client/include/*.hpp' 'client/cli/*.[ch]pp' 'integrations/*.js' 'integrations/*.ts' 'integrations/*.java' 'integrations/*.py' |
        grep -vE '^(docs/performance.*|CHANGELOG|docs/zh/.*|.*\.zh)\.md$')
    set -- "${files[@]}"
fi

# A pattern and what to write instead. In comments of code a heading may be a clause: `page` rules are for pages alone.
exec perl - "$@" <<'PERL'
use strict;
use warnings;

my @rules = (
    [qr/\bwhoever\b/i,                                      'a noun: "the caller that", "a role that"'],
    [qr/\bpatience\b/i,                                     '"wait limit", "time limit"'],
    [qr/\bin vain\b/i,                                      'the failure: "attempted and failed", "without a result"'],
    [qr/\bglanc(?:e|es|ed|ing)\b/i,                         '"classify", "read"'],
    [qr/\bmend(?:s|ed|ing)?\b/i,                            '"fix"'],
    [qr/\bbesides\b/i,                                      '"also", "in addition to", "other than"'],
    [qr/\banew\b/i,                                         '"again"'],
    [qr/\b(?:come|comes|came) through\b/i,                  '"is raised unchanged", "reaches the caller"'],
    [qr/\blest\b/i,                                         '"so that … not"'],
    [qr/\b(?:whence|thereof|herein|hereby|thereby)\b/i,     'two sentences'],
    [qr/\bfor ever\b/i,                                     '"without end", "permanently", "never expires"'],
    [qr/\b(?:is|was|are|were|be) had\b/i,                   'a verb of the field: "acquired", "returned"'],
    [qr/\b(?:is|are|be|was|still) at it\b/i,                '"is running", "is working on it"'],
    [qr/\bturned away\b/i,                                  '"rejected"'],
    [qr/\bin the hands of\b/i,                              '"held by"'],
    [qr/\b(?:is|are|was|were) told\b(?! apart)/i,          '"gets", "returns"', 'page'],
    [qr/[;:,] who (?:waits|has|had|may|comes|asks|calls|wants)\b(?![^.!?]*\?)/, 'a noun: "a caller that"', 'page'],
    [qr/\b(?:himself|herself)\b/i,                          '"itself", "themselves", or a noun'],
    [qr/(?:^|[.!?] |\| |[-*] )Who (?!\w+ (?:wh|is it))\w+(?![^.!?]*\?)/,            'a subject that is a noun: "A caller that …"'],
    [qr/(?:^|[.!?] |[-*] )What (?:is|was|were|are|has|had|holds|came|comes|stands|keeps|helps|bounds)\b(?![^.!?]*\?)/, 'a subject that is a noun', 'page'],
    [qr/\b(?:from|of|by|for|to|with|than|behind) who (?:is|was|has|had|may|can|does|did|asks|waits|wants|comes|came|calls|holds|sleeps)\b/i, '"the caller that", "those that"'],
    [qr/\b(?:Refused|Raised|Rejected|Deleted|Stored|Shown|Counted) (?:besides|is|are)\b/,      'the subject first: "Also rejected: …"'],
);

open(my $list, '<', 'scripts/narrow-pages') or die "scripts/narrow-pages: $!\n";
my @narrow = map { glob } grep { chomp; !/^(?:#|$)/ } <$list>;
my %is_narrow = map { $_ => 1 } @narrow;

# The lines of a source file without its code: each has its part of a comment, or is empty.
sub comment_lines {
    my ($text, $language) = @_;
    my $is_python = $language eq 'py';
    my $string = qr/(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/;
    my $comment = $is_python ? qr/\#[^\n]*|\"{3}.*?\"{3}/s : qr{//[^\n]*|/\*.*?\*/}s;
    # A pattern of JavaScript may have quotation marks.
    my $pattern = qr{[(=,:!&|?;]\s*/(?![/*])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/};
    my $code = $is_python ? $string : $language =~ /[jt]s/ ? qr/$pattern|`(?:[^`\\]|\\.)*`|$string/s : qr/R"\(.*?\)"|$string/s;
    my $comments = '';
    while ($text =~ /\G(?:($comment)|($code|.))/gs) {
        $comments .= defined $1 ? $1 : $2 =~ s/[^\n]//gr;
    }
    return map { s{^\s*(?:///?<?|/?\*+(?=[\s/])|\#+|\"{3})\s?}{}r =~ s{\s*(?:\*/|\"{3})$}{}r } split /\n/, $comments;
}

my $found = 0;
for my $name (@ARGV) {
    open(my $file, '<:encoding(UTF-8)', $name) or die "$name: $!\n";
    my $is_page = $name =~ /\.md$/;
    my $in_code = 0;
    my @lines = <$file>;
    my ($language) = $name =~ /\.([ch]pp|[jt]s|java|py)$/;
    my $is_source = $language && $name !~ m{^client/cli/.*cpp$}; # whose strings are the command's help
    @lines = comment_lines(join('', @lines), $language) if $is_source;
    chomp @lines;
    for my $at (0 .. $#lines) {
        my $line = $lines[$at];
        my $number = $at + 1;
        if ($is_page) {
            if ($line =~ /^\s*```/) { $in_code = !$in_code; next; }
            next if $in_code;
            if ($is_narrow{$name} && $line !~ /^(?:\||#)/) {
                my $words = $line =~ s/^(?:\s*(?:[-*]|\d+\.))?\s+//r;
                # What cannot be broken: code between backquotes, with the link around it.
                $words =~ s/\[?`[^`]*`(?:\]\([^)]*\))?/x/g;
                if (length($line) > 100 && $words =~ / /) {
                    printf "%s:%d: %d columns: write at most 100\n", $name, $number, length($line);
                    $found++;
                }
            }
        }
        $line =~ s/`[^`]*`/`…`/g if $is_page || $is_source;
        next if !$is_page && $line =~ /\b(?:HINT|DETAIL|MESSAGE) = /; # the extension's messages, which are the C edition's as well
        # What begins in this line may end in the next one of the paragraph.
        my $end = length $line;
        my $next = ($is_page || $is_source) && $line !~ /^(?:\||#|$)/ && $at < $#lines ? $lines[$at + 1] : '';
        $line .= ' ' . $next =~ s/^\s+//r if $next !~ /^\s*(?:[-*|#`]|\d+\.|$)/;
        for my $rule (@rules) {
            next if $rule->[2] && !$is_page;
            next unless $line =~ $rule->[0];
            my ($start, $hit) = ($-[0], $&);
            my ($mark) = $hit =~ /^(\W*)/; # a full stop of the sentence before
            next if $start + length($mark) >= $end;
            printf "%s:%d: \"%s\": write %s\n", $name, $number, substr($hit, length $mark) =~ s/\s+$//r, $rule->[1];
            $found++;
        }
    }
}
print "$found found\n" if $found;
exit($found > 0);
PERL
