package serve

import (
	"bytes"
	"errors"
	"strings"
)

// elementScanner scans JSON that consists of nested lists, and yields their elements in order. The JSON must be valid.
type elementScanner struct {
	data []byte
	err  error // set by method all
}

// all is an iterator over the texts of the elements: numbers, literals, and strings with their quotes. It sets err if
// the JSON is not a list or contains an object.
func (s *elementScanner) all(yield func(text []byte) bool) {
	data := bytes.TrimSpace(s.data)
	if len(data) == 0 || data[0] != '[' {
		s.err = errors.New("data is not a list")
		return
	}
	for i := 0; i < len(data); {
		first := data[i]
		switch {
		case first == '{':
			s.err = errors.New("data contains an object")
			return
		case first == '[' || first == ']' || first == ',' || first == ' ' || first == '\n' || first == '\t' || first == '\r':
			i++
			continue
		}
		end := i + 1
		if first == '"' {
			for data[end] != '"' { // the loop ends because the JSON is valid
				if data[end] == '\\' { // an escape sequence, such as \"
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
