package serve

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// elementScanner scans JSON that is a flat list, or lists nested as a shape, and yields the elements in order: 1, 2 and
// "x" for [[1, 2], ["x"]]. The JSON must be valid.
type elementScanner struct {
	data  []byte
	shape []int
	err   error // set by method all

	depth  int   // the number of open lists
	counts []int // the number of entries of each open list
	leaf   int   // the depth of the elements; 0 before the first element
}

// all is an iterator over the texts of the elements: numbers, literals, and strings with their quotes. It sets err if
// the JSON is not a list, contains an object, or is nested in another way than shape.
func (s *elementScanner) all(yield func(text []byte) bool) {
	data := bytes.TrimSpace(s.data)
	if len(data) == 0 || data[0] != '[' {
		s.err = errors.New("data is not a list")
		return
	}
	s.counts = make([]int, max(len(s.shape), 1)+1)
	for i := 0; i < len(data); {
		fits := true
		switch data[i] {
		case '{':
			s.err = errors.New("data contains an object")
			return
		case '[':
			fits = s.open()
		case ']':
			fits = s.close()
		case ',', ' ', '\n', '\t', '\r':
		default:
			if s.depth != s.leaf && !s.setLeaf() {
				fits = false
				break
			}
			s.counts[s.depth]++
			end := endOfElement(data, i)
			if !yield(data[i:end]) {
				return
			}
			i = end - 1
		}
		if !fits {
			s.err = fmt.Errorf("the data must be a flat list, or lists nested as the shape %v", s.shape)
			return
		}
		i++
	}
}

// open begins a list. It returns false if the shape has no list at this depth.
func (s *elementScanner) open() bool {
	s.counts[s.depth]++
	s.depth++
	if s.depth == len(s.counts) || s.depth == s.leaf+1 && s.leaf > 0 {
		return false
	}
	s.counts[s.depth] = 0
	return true
}

// close ends a list. It returns false if the shape has another number of entries. A flat list fits every shape.
func (s *elementScanner) close() bool {
	isFlat := s.depth == 1 && (s.leaf == 1 || s.counts[1] == 0)
	fits := isFlat || s.counts[s.depth] == s.shape[s.depth-1]
	s.depth--
	return fits
}

// setLeaf sets the depth of the elements. It returns false if the elements have different depths, or if this depth fits
// neither a flat list nor the shape.
func (s *elementScanner) setLeaf() bool {
	isFlat := s.depth == 1 && s.counts[1] == 0
	fits := s.leaf == 0 && (isFlat || s.depth == len(s.shape))
	s.leaf = s.depth
	return fits
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
