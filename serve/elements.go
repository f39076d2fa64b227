package serve

import (
	"bytes"
	"errors"
	"strings"
)

// elementScanner scans JSON that consists of nested lists, and yields their elements in order: 1, 2 and "x" for
// [[1, 2], ["x"]]. The JSON must be valid.
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
		switch first {
		case '{':
			s.err = errors.New("data contains an object")
			return
		case '[', ']', ',', ' ', '\n', '\t', '\r':
			i++
			continue
		}
		end := endOfElement(data, i)
		if !yield(data[i:end]) {
			return
		}
		i = end
	}
}

// endOfElement returns the index after the element that begins at start.
func endOfElement(data []byte, start int) int {
	end := start + 1
	if data[start] != '"' {
		for end < len(data) && !strings.ContainsRune(",] \n\t\r", rune(data[end])) {
			end++
		}
		return end
	}
	for data[end] != '"' { // the loop ends because the JSON is valid
		if data[end] == '\\' { // an escape sequence, such as \"
			end++
		}
		end++
	}
	return end + 1
}
