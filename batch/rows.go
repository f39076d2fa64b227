package batch

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/tensor"
)

// column collects the elements of one input of the model, row by row. [decoder.decodeCSV] and [decoder.decodeJSONLines]
// fill one column for each input, and [tensorsOf] makes tensors of them. For example, for an input x of the shape [N,
// 2], both of these files have the rows [1 2] and [3 4]:
//
//	x.0,x.1        {"x": [1, 2]}
//	1,2            {"x": [3, 4]}
//	3,4
type column struct {
	value     *graph.Value                 // the input
	labels    graph.Labels                 // the strings for which the elements stand, if any
	parseInto func(dst, text []byte) error // parses an element and stores its bytes; nil for strings
	shape     []int                        // shape of a row; -1 for an unknown size
	rowSize   int                          // number of elements of a row; for CSV files only
	fields    []int                        // for each element of a row: the index of its field in a CSV record
	rows      int                          // number of rows so far
	data      []byte                       // the elements so far, in the dtype of the input
	strings   []string                     // used instead of data if the elements stand for strings
}

// columns returns an empty column for each input of the graph that has no default.
func (d *decoder) columns() ([]*column, error) {
	inputs := requiredInputs(d.graph)
	list := make([]*column, len(inputs))
	for i, v := range inputs {
		shape, err := rowShape(v)
		if err != nil {
			return nil, err
		}
		c := &column{value: v, labels: d.graph.Labels[v.Name], parseInto: numerals.Setter(v.Meta.DType), shape: shape}
		if c.parseInto == nil && !c.isText() {
			return nil, fmt.Errorf("input %q has dtype %v, which text files do not support", v.Name, v.Meta.DType)
		}
		list[i] = c
	}
	return list, nil
}

// rowShape returns the shape of a row of an input: the declared shape without the first dimension. A symbolic
// dimension has size -1.
func rowShape(v *graph.Value) ([]int, error) {
	shape := declaredShape(v)
	if len(shape) == 0 {
		return nil, fmt.Errorf("input %q is a scalar and has no rows", v.Name)
	}
	return shape[1:], nil
}

func (c *column) isText() bool { return c.labels.IsText() }

// add parses an element and adds it.
func (c *column) add(text []byte) error {
	if c.isText() {
		c.strings = append(c.strings, string(text))
		return nil
	}
	if len(text) == 0 {
		return errors.New("the field is empty")
	}
	start := len(c.data)
	c.data = append(c.data, make([]byte, c.value.Meta.DType.Size())...)
	if err := c.parseInto(c.data[start:], text); err != nil {
		return fmt.Errorf("%.40q: %w", text, err)
	}
	return nil
}

// tensorsOf returns the tensors of columns.
func tensorsOf(columns []*column) (in map[string]*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	in = map[string]*tensor.Tensor{}
	for _, c := range columns {
		if c.rows == 0 {
			return nil, errors.New("the file has no rows")
		}
		shape := append([]int{c.rows}, c.shape...)
		if c.isText() {
			if in[c.value.Name], err = c.labels.Encode(c.strings, shape...); err != nil {
				return nil, err
			}
			continue
		}
		t := tensor.Empty(tensor.New(c.value.Meta.DType, shape...))
		copy(t.Storage().Bytes(), c.data)
		in[c.value.Name] = t
	}
	return in, nil
}

// decodeCSV decodes a CSV file with one record for each row. The first record may name the inputs: NAME, or NAME.0,
// NAME.1, ... for several elements. The names then determine the order of the fields. Fields with other names are
// ignored. If the first record names no input, a record has the elements of all inputs in order. A first record without
// numbers is then skipped as a heading.
func (d *decoder) decodeCSV(data []byte) (map[string]*tensor.Tensor, error) {
	columns, err := d.columns()
	if err != nil {
		return nil, err
	}
	// A record has at most len(data) fields if they are not empty. Empty fields are an error.
	recordSize, err := numberFields(columns, len(data))
	if err != nil {
		return nil, err
	}
	reader := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	reader.ReuseRecord = true
	for first := true; ; first = false {
		record, err := reader.Read()
		if err == io.EOF {
			return tensorsOf(columns)
		}
		if err != nil {
			return nil, err
		}
		if first {
			if isHeading, err := readHeading(columns, record, recordSize); err != nil {
				return nil, err
			} else if isHeading {
				continue
			}
		}
		line, _ := reader.FieldPos(0)
		if err := addRecord(columns, record, line); err != nil {
			return nil, err
		}
	}
}

// readHeading reports whether the first record is a heading. If it names the inputs, it sets the fields of columns.
func readHeading(columns []*column, record []string, recordSize int) (isHeading bool, err error) {
	named, err := nameFields(columns, record)
	switch {
	case err != nil || named:
		return named, err
	case len(record) != recordSize:
		return false, fmt.Errorf("line 1 has %d fields, but a row of the model has %d elements", len(record), recordSize)
	}
	return !mayBeData(columns, record), nil
}

// numberFields sets the fields of columns for records without names, which have the elements of all inputs in order. It
// returns the number of fields of a record. A row of an input must not have more than maxFields elements.
func numberFields(columns []*column, maxFields int) (recordSize int, err error) {
	for _, c := range columns {
		c.rowSize = 1
		for _, size := range c.shape {
			if size < 0 {
				return 0, fmt.Errorf("input %q: the shape of a row is %v, but CSV files need a model with known sizes",
					c.value.Name, c.shape)
			}
			if c.rowSize *= size; c.rowSize > maxFields { // checked for each factor, so that the product cannot overflow
				return 0, fmt.Errorf("input %q: the record has fewer fields than a row has elements", c.value.Name)
			}
		}
		for range c.rowSize {
			c.fields = append(c.fields, recordSize)
			recordSize++
		}
	}
	return recordSize, nil
}

// nameFields sets the fields of columns from a record of names. It returns false if the record names no input, and an
// error if it names some elements of inputs but not all.
func nameFields(columns []*column, record []string) (named bool, err error) {
	fields := make([][]int, len(columns)) // indexed by column; used only if no name is missing
	missing := ""
	indices := make(map[string]int, len(record)) // index of the first field with each name
	for field, name := range slices.Backward(record) {
		indices[name] = field
	}
	for i, c := range columns {
		for k := range c.rowSize {
			field, ok := indices[c.value.Name+"."+strconv.Itoa(k)]
			if !ok && c.rowSize == 1 {
				field, ok = indices[c.value.Name]
			}
			if !ok && missing == "" {
				missing = fmt.Sprintf("element %d of input %q", k, c.value.Name)
			}
			named = named || ok
			fields[i] = append(fields[i], field)
		}
	}
	if !named {
		return false, nil
	}
	if missing != "" {
		return false, fmt.Errorf("line 1 has no name for %s", missing)
	}
	for i, c := range columns {
		c.fields = fields[i]
	}
	return true, nil
}

// mayBeData reports whether a record may be data instead of a heading. The record may be data if a field of a numeric
// input is a number, or if no input is numeric.
func mayBeData(columns []*column, record []string) bool {
	var element [16]byte // for a parsed number of any dtype
	numbers := 0
	for _, c := range columns {
		for _, field := range c.fields {
			if c.isText() || field >= len(record) {
				continue
			}
			numbers++
			if record[field] != "" && c.parseInto(element[:], []byte(record[field])) == nil {
				return true
			}
		}
	}
	return numbers == 0
}

// addRecord adds a row from a record of a CSV file. line is the line number of the record. readHeading has checked the
// number of fields of the first record, and csv.Reader rejects records with another number.
func addRecord(columns []*column, record []string, line int) error {
	for _, c := range columns {
		for _, field := range c.fields {
			if err := c.add([]byte(record[field])); err != nil {
				return fmt.Errorf("line %d, field %d: %w", line, field+1, err)
			}
		}
		c.rows++
	}
	return nil
}

// decodeJSONLines decodes a file with one JSON value in each line. This value is an object with a value for each input,
// or the value of the only input. The value of an input is one row: a number, a string, or nested lists of them.
func (d *decoder) decodeJSONLines(data []byte) (map[string]*tensor.Tensor, error) {
	columns, err := d.columns()
	if err != nil {
		return nil, err
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if err := addLine(columns, text); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	return tensorsOf(columns)
}

// addLine adds a line of JSON to the columns. The line is an object with a member for each input. If there is only one
// input, the line may also be its value.
func addLine(columns []*column, text []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	if decoder.PeekKind() != '{' {
		if len(columns) != 1 {
			return fmt.Errorf("the line must be an object, because the model has %d inputs", len(columns))
		}
		return cmp.Or(columns[0].addRow(decoder), checkEnd(decoder))
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	hasValue := make([]bool, len(columns))
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(columns, func(c *column) bool { return c.value.Name == name.String() })
		if i < 0 {
			err = decoder.SkipValue()
		} else {
			hasValue[i] = true
			err = columns[i].addRow(decoder)
		}
		if err != nil {
			return err
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	if i := slices.Index(hasValue, false); i >= 0 {
		return fmt.Errorf("the line has no value for input %q", columns[i].value.Name)
	}
	return checkEnd(decoder)
}

// checkEnd returns an error if a value follows.
func checkEnd(decoder *jsontext.Decoder) error {
	if _, err := decoder.ReadToken(); err != io.EOF {
		return errors.New("the line has more than one value")
	}
	return nil
}

// addRow adds the row that a JSON value represents.
func (c *column) addRow(decoder *jsontext.Decoder) error {
	shape, err := c.addValue(decoder, 0)
	switch {
	case err != nil:
		return fmt.Errorf("input %q: %w", c.value.Name, err)
	case len(shape) != len(c.shape):
		return fmt.Errorf("input %q: the row has the shape %v, want %v", c.value.Name, shape, c.shape)
	}
	for i, n := range shape {
		if c.shape[i] >= 0 && c.shape[i] != n {
			return fmt.Errorf("input %q: the row has the shape %v, want %v", c.value.Name, shape, c.shape)
		}
	}
	c.shape = shape // further rows must have the same shape
	c.rows++
	return nil
}

// addValue adds the elements of a JSON value and returns its shape: [] for a number, [2 3] for two lists of three
// numbers. depth is the number of enclosing lists.
func (c *column) addValue(decoder *jsontext.Decoder, depth int) (shape []int, err error) {
	if decoder.PeekKind() != '[' {
		return []int{}, c.addScalar(decoder)
	}
	if depth > len(c.shape) {
		return nil, fmt.Errorf("the lists are nested too deeply: the shape of a row is %v", c.shape)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	n := 0
	for decoder.PeekKind() != ']' {
		inner, err := c.addValue(decoder, depth+1)
		switch {
		case err != nil:
			return nil, err
		case n > 0 && !slices.Equal(inner, shape):
			return nil, fmt.Errorf("element %d has the shape %v, but the elements before it have the shape %v", n, inner, shape)
		}
		shape = inner
		n++
	}
	_, err = decoder.ReadToken()
	return append([]int{n}, shape...), err
}

// addScalar adds the element that a JSON number or string represents.
func (c *column) addScalar(decoder *jsontext.Decoder) error {
	token, err := decoder.ReadToken()
	if err != nil {
		return err
	}
	if kind := token.Kind(); kind == '{' || kind == 'n' || (kind == '"') != c.isText() { // n: null
		wanted := "a number"
		if c.isText() {
			wanted = "a string"
		}
		return fmt.Errorf("the JSON value %.40q is not %s", token.String(), wanted)
	}
	return c.add([]byte(token.String()))
}
