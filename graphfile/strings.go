package graphfile

import (
	"fmt"
	"maps"
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

// stringTable has the strings of a file, also those of graphs that are attributes.
type stringTable struct {
	list            []string
	codes           map[string]int64
	constants       []*tensor.Tensor
	inputs, outputs map[string]bool // names
}

func newStringTable() *stringTable {
	return &stringTable{codes: map[string]int64{}, inputs: map[string]bool{}, outputs: map[string]bool{}}
}

// code returns the code of a string.
func (table *stringTable) code(s string) int64 {
	code, ok := table.codes[s]
	if !ok {
		code = int64(len(table.list))
		table.codes[s], table.list = code, append(table.list, s)
	}
	return code
}

// readStrings reads the section "strings".
func (l *loader) readStrings(offset int) error {
	if len(l.strings.constants) > 0 {
		l.failAt(offset, "\"strings\" must come before the constants that have strings")
	}
	return l.scan.array(func(offset int) error {
		var s string
		firstErrIndex := len(l.errs)
		err := l.scan.stringTo(&s)
		if _, known := l.strings.codes[s]; known && len(l.errs) == firstErrIndex {
			l.failAt(offset, "the string %q occurs twice", s)
		}
		l.strings.code(s)
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

// labelStrings gives the strings of the file to the graph, its inputs and outputs, and its constants of strings.
func (l *loader) labelStrings() {
	table := l.strings
	if len(table.list)+len(table.inputs)+len(table.outputs) == 0 {
		return
	}
	l.graph.Texts = tensor.NewTexts(table.list)
	l.graph.Labels = map[string]graph.Labels{}
	for _, names := range []map[string]bool{table.inputs, table.outputs} {
		for name := range maps.Keys(names) {
			l.graph.Labels[name] = graph.Labels{Texts: l.graph.Texts}
		}
	}
	for _, t := range table.constants {
		t.SetTexts(l.graph.Texts)
	}
}

// encodeFile returns the codes of strings that a file holds, as numpy's dtypes U and S.
func (table *stringTable) encodeFile(array *tensor.Tensor, shape []int) (*tensor.Tensor, error) {
	list, err := npz.Strings(array)
	if err != nil {
		return nil, err
	}
	codes := make([]int64, len(list))
	for i, s := range list {
		codes[i] = table.code(s)
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
