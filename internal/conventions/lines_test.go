package conventions_test

import (
	"go/scanner"
	"go/token"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxWidth is the limit of a line in characters; a tab counts as one.
const maxWidth = 120

// TestLines limits the width of lines in handwritten Go files. Lines that cannot be broken are exempt: raw strings
// (tables of tests, tags of structs), the expected output of examples, directives, and comments of one word
// (addresses).
func TestLines(t *testing.T) {
	lines := 0
	walkGo(t, "", func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil || generated.Match(text) {
			return err
		}
		free := unbreakable(text)
		for i, line := range strings.Split(string(text), "\n") {
			lines++
			if n := utf8.RuneCountInString(line); n > maxWidth && !free[i+1] {
				t.Errorf("%s:%d: the line has %d characters, the limit is %d", path, i+1, n, maxWidth)
			}
		}
		return nil
	})
	if lines < 50000 {
		t.Errorf("only %d lines were checked", lines)
	}
}

// unbreakable returns the numbers of the lines that cannot be broken. The first line is 1.
func unbreakable(text []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	free, printed := map[int]bool{}, -1 // printed is the last line of an expected output
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return free
		}
		at := file.Line(pos)
		switch {
		case tok == token.STRING && lit[0] == '`':
			for i := range strings.Count(lit, "\n") + 1 {
				free[at+i] = true
			}
		case tok == token.COMMENT:
			words := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(lit, "//")))
			if strings.HasPrefix(words, "output:") || strings.HasPrefix(words, "unordered output:") || printed == at-1 {
				printed = at
			}
			if printed == at || strings.HasPrefix(lit, "//go:") || !strings.Contains(words, " ") {
				free[at] = true
			}
		}
	}
}
