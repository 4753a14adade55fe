#!/usr/bin/env bash
# Looks for English that readers stumble over, in the documents, the comments of sql/ and the command's help. The rules are few: the subject comes first
# and is a noun, and no word is older than the field.
#
#   lint-english.sh [FILE ...]    these files, or all; prints FILE:LINE: what was found, and what to write instead
#
# Code, in blocks and between backquotes, is not looked at. Generated pages and the history are left out. Pages that scripts/narrow-pages names keep to 100
# columns, but for tables, code, and a line that is one word.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.md' 'sql/*.sql' 'client/cli/*.cpp' |
        grep -vE '^(docs/performance.*|CHANGELOG|docs/zh/.*|.*\.zh)\.md$')
    set -- "${files[@]}"
fi

# A pattern and what to write instead. In comments of code a heading may be a clause: `page` rules are for pages alone.
exec perl - "$@" <<'PERL'
use strict;
use warnings;

my @rules = (
    [qr/\bwhoever\b/i,                                      'a noun: "the caller that", "a role that"'],
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

my $found = 0;
for my $name (@ARGV) {
    open(my $file, '<:encoding(UTF-8)', $name) or die "$name: $!\n";
    my $is_page = $name =~ /\.md$/;
    my $in_code = 0;
    my @lines = <$file>;
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
            $line =~ s/`[^`]*`/`…`/g;
        }
        next if !$is_page && $line =~ /\b(?:HINT|DETAIL|MESSAGE) = /; # the extension's messages, which are the C edition's as well
        # What begins in this line may end in the next one of the paragraph.
        my $end = length $line;
        my $next = $is_page && $line !~ /^(?:\||#|$)/ && $at < $#lines ? $lines[$at + 1] : '';
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
