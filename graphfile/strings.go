package graphfile

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// This file reads and writes strings: inputs, constants and outputs of the dtype "string", which are int64 codes
// ([tensor.Texts]). The strings of "strings" have the codes 0, 1, ..., for other constants and attributes that have
// codes. Further strings of constants follow.
//
//	"strings": ["red", "green"],
//	"inputs": [{"name": "x", "dtype": "string", "shape": ["N"]}],
//	"constants": [{"name": "colors", "dtype": "string", "shape": [2], "data": ["green", "blue"]}],
//	...
//	"outputs": [{"value": "y", "dtype": "string"}]

// textType is the dtype of strings in files.
const textType = "string"

// readStrings reads the section "strings".
func (l *loader) readStrings(offset int) error {
	if len(l.texts.List()) > 0 {
		l.failAt(offset, "\"strings\" must come before the constants that have strings")
	}
	return l.scan.array(func(offset int) error {
		var s string
		firstErrIndex, before := len(l.errs), len(l.texts.List())
		err := l.scan.stringTo(&s)
		if l.texts.Enlist(s); len(l.texts.List()) == before && len(l.errs) == firstErrIndex {
			l.failAt(offset, "the string %q occurs twice", s)
		}
		return err
	})
}

// parseDType returns the dtype of a declaration in memory. isText reports whether it is textType.
func parseDType(name string) (dtype tensor.DType, isText bool, err error) {
	if name == textType {
		return tensor.Int64, true, nil
	}
	dtype, err = tensor.ParseDType(name)
	return dtype, false, err
}

// label records that an input or an output of the file is strings. Inputs and outputs of other graphs have no labels.
func (l *loader) label(name string) {
	if l.depth > 0 {
		return
	}
	if l.graph.Labels == nil {
		l.graph.Labels = map[string]graph.Labels{}
	}
	l.graph.Labels[name] = graph.Labels{Texts: l.texts}
}

// encodeFile returns the codes of strings that a file holds, as numpy's dtypes U and S.
func (l *loader) encodeFile(array *tensor.Tensor, shape []int) (*tensor.Tensor, error) {
	list, err := npz.Strings(array)
	if err != nil {
		return nil, err
	}
	codes := make([]int64, len(list))
	for i, s := range list {
		codes[i] = l.texts.Enlist(s)
	}
	return tensor.FromSlice(codes, shape...)
}

// isStringsOf reports whether an array of a file, with a dimension for the characters, has strings of a shape.
func isStringsOf(array tensor.Meta, shape []int) bool {
	rank := array.Rank() - 1
	return rank >= 0 && (array.DType == tensor.Uint32 || array.DType == tensor.Uint8) &&
		slices.Equal(array.Shape[:rank], shape)
}

// checkStrings returns an error for a string that JSON cannot hold.
func (s *saver) checkStrings() error {
	if s.graph.Texts == nil {
		return nil
	}
	for _, text := range s.graph.Texts.List() {
		if !utf8.ValidString(text) {
			return fmt.Errorf("the string %q is not valid UTF-8, which JSON requires", text)
		}
	}
	return nil
}

// isText reports whether an input or a constant is written as strings.
func (s *saver) isText(v *graph.Value) bool {
	if v.Const == nil {
		return s.graph.Labels[v.Name].IsText()
	}
	return v.Meta.DType == tensor.Int64 && v.Const.Texts() != nil
}

// checkTexts returns an error if a constant of strings has a code without a string.
func checkTexts(v *graph.Value) error {
	labels := graph.Labels{Texts: v.Const.Texts()}
	if err := labels.Each(v.Const, func(int, string) error { return nil }); err != nil {
		return fmt.Errorf("constant %q: %w", v.Name, err)
	}
	return nil
}
