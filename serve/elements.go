package serve

import (
	"bytes"
	"errors"
	"strings"
)

// elementScanner scans JSON that consists of nested lists, and yields their elements in order. The JSON must be valid.
type elementScanner struct {
	remaining []byte
	err       error
}

// all is an iterator over the texts of the elements: numbers, literals, and strings with their quotes. It sets err if
// the JSON is not a list or contains an object.
func (s *elementScanner) all(yield func(text []byte) bool) {
	data := bytes.TrimSpace(s.remaining)
	if len(data) == 0 || data[0] != '[' {
		s.err = errors.New("data is not a list")
		return
	}
	for i := 0; i < len(data); {
		c := data[i]
		switch {
		case c == '{':
			s.err = errors.New("data contains an object")
			return
		case c == '[' || c == ']' || c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
			continue
		}
		end := i + 1
		if c == '"' {
			for data[end] != '"' { // the loop ends because the JSON is valid
				if data[end] == '\\' {
					end++
				}
				end++
			}
			end++
		} else {
			for end < len(data) && !strings.ContainsRune(",] \n\t\r", rune(data[end])) {
				end++
			}
		}
		if !yield(data[i:end]) {
			return
		}
		i = end
	}
}
