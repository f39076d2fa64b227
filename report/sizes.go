package report

import (
	"strconv"
	"strings"
)

// Size is a size, a stride or an offset: a number, or an expression over symbols. The symbols u0, u1 ... are sizes that
// depend on data.
type Size struct {
	N    int    // the number, if Name is empty
	Name string // the expression; different expressions may have equal values
}

// String returns the number or the expression.
func (s Size) String() string {
	if s.Name != "" {
		return s.Name
	}
	return strconv.Itoa(s.N)
}

// MarshalJSON returns the number, or the expression as a string.
func (s Size) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

// append appends the JSON of the size to b.
func (s Size) append(b []byte) []byte {
	if s.Name != "" {
		return strconv.AppendQuote(b, s.Name)
	}
	return strconv.AppendInt(b, int64(s.N), 10)
}

// Sizes are a shape or strides; nil, in JSON null, if the rank is unknown.
type Sizes []Size

// SizesOf returns known sizes as numbers, and unknown sizes as expressions. The result is not nil. The elements are of
// type sym.Int.
func SizesOf[S interface {
	Known() (int, bool)
	String() string
}](list []S) Sizes {
	sizes := make(Sizes, len(list))
	for i, s := range list {
		n, known := s.Known()
		sizes[i].N = n
		if !known {
			sizes[i].Name = s.String()
		}
	}
	return sizes
}

// String prints the list as one word: "[2,N]", or "?" for nil.
func (s Sizes) String() string {
	if s == nil {
		return "?"
	}
	words := make([]string, len(s))
	for i, n := range s {
		words[i] = n.String()
	}
	return "[" + strings.Join(words, ",") + "]"
}

// MarshalJSON returns the list, or null.
func (s Sizes) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("null"), nil
	}
	text := []byte{'['}
	for i, n := range s {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = n.append(text)
	}
	return append(text, ']'), nil
}

// JSONSchema is the JSON Schema of a size.
func (Size) JSONSchema() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string",
		"description": "An expression over symbols. u0, u1 ... are sizes that depend on data; different ones may be equal."}}}
}

// JSONSchema is the JSON Schema of the list.
func (Sizes) JSONSchema() map[string]any {
	items := Size{}.JSONSchema()
	return map[string]any{"anyOf": []any{map[string]any{"type": "array", "items": items}, map[string]any{"type": "null"}}}
}
