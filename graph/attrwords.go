package graph

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// AttrError is a mistake in an attribute: an [Error] of its node has the attribute's place in a file.
type AttrError struct {
	Attr string
	Err  error
}

// Error is the cause's message, which names the attribute.
func (e *AttrError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("attribute %q: no cause was given", e.Attr)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *AttrError) Unwrap() error { return e.Err }

// misfit is a value that is not of an attribute's type. What is wanted is said by who knows
// the whole type.
type misfit struct {
	got  any
	hint string
}

// Error tells the value; [Field.words] puts what is wanted before it.
func (e *misfit) Error() string { return "got " + valueText(e.got) + e.hint }

// words completes the error of a value of the wrong type.
func (f Field) words(err error) error {
	var m *misfit
	if !errors.As(err, &m) {
		return err
	}
	return fmt.Errorf("want %s, %w", f.wanted(), m)
}

// wanted says what values the attribute takes.
func (f Field) wanted() string {
	name, _, _ := strings.Cut(f.Type, "|")
	name, optional := strings.CutSuffix(name, "?")
	var list []string
	if item, isList := strings.CutSuffix(name, "[]"); isList {
		list = []string{typeWords[item],
			"a list of " + strings.TrimPrefix(strings.TrimPrefix(typeWords[item], "an "), "a ") + "s"}
		if item == "bool" {
			list[1] = "a list of these"
		}
	} else {
		list = []string{typeWords[name]}
	}
	list = append(list, f.Words...)
	if optional || f.Default == "none" {
		list = append(list, "null")
	}
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// typeWords are the types of attributes in words.
var typeWords = map[string]string{"int": "an integer", "float": "a number", "number": "a number",
	"bool": "true or false", "string": "a string", "dtype": "the name of a dtype",
	"memory_format": "the name of a memory format", "graph": "a graph"}

// valueText is a value of a file as it is there, in short.
func valueText(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(x)
	case bool, int, int64, float64:
		return fmt.Sprint(x)
	case []any:
		return "a list"
	case elements:
		return fmt.Sprintf("a value of %d elements", len(x))
	case map[string]any:
		return "an object"
	}
	if s, ok := tensor.ScalarOf(v); ok {
		return s.String()
	}
	return "something else"
}

// noNumber is the error of a value where a number must stand.
func noNumber(v any) error {
	m := &misfit{got: v}
	if text, ok := v.(string); ok {
		if meant := numerals.Meant(text); meant != "" {
			m.hint = suggest.DidYouMean(strconv.Quote(meant))
		} else if _, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "+-.0123456789eE") == "" {
			m.hint = suggest.DidYouMean(text)
		}
	}
	return m
}
