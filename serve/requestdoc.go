package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// This file parses the JSON of an inference request. The parser stops at the first input or output that is repeated or
// that the model does not have. The memory of the parsed form therefore depends on the model and not on the request.

// requestDoc is the JSON document of an inference request.
type requestDoc struct {
	ID         string
	Parameters parameters
	Inputs     []tensorDoc
	Outputs    []outputDoc
}

// outputDoc is an entry of "outputs" in the JSON of a request: an output that the response must contain.
type outputDoc struct {
	Name       string
	Parameters parameters
}

// tensorDoc is a tensor of a request.
type tensorDoc struct {
	Name       string
	Shape      []int
	Datatype   string
	Parameters parameters
	Data       jsontext.Value // shares memory with the request; nil if there are no data
}

// parameters has the parameters of the protocol's binary extension. Other parameters are ignored.
type parameters struct {
	BinaryDataSize   *int  // binary_data_size
	BinaryData       *bool // binary_data
	BinaryDataOutput *bool // binary_data_output
}

// docParser parses the JSON of a request for a model. A value null counts as absent.
type docParser struct {
	*jsontext.Decoder
	model *model
}

// parseText parses the JSON of a request. The result shares memory with text.
func (m *model) parseText(text []byte) (*requestDoc, error) {
	// The detection of repeated names would keep all names in memory.
	p := docParser{jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)), m}
	doc := &requestDoc{}
	if p.PeekKind() == 'n' {
		return nil, p.typeError("an object")
	}
	err := p.object(func(name string) error {
		switch name {
		case "id":
			return p.text(&doc.ID)
		case "parameters":
			return p.parameters(&doc.Parameters)
		case "inputs":
			return p.list(func() error { return p.input(doc) })
		case "outputs":
			return p.list(func() error { return p.output(doc) })
		}
		return p.SkipValue()
	})
	if err == nil {
		if _, err = p.ReadToken(); err == io.EOF {
			return doc, nil
		}
		if err == nil {
			return nil, errors.New("the request has more than one JSON value")
		}
	}
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntactic):
		return nil, fmt.Errorf("the request is not valid JSON: %w at byte %d", syntactic.Err, syntactic.ByteOffset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("the request is not valid JSON: it ends at byte %d", len(text))
	}
	return nil, err
}

// object parses an object. It calls member after the name of each member.
func (p docParser) object(member func(name string) error) error {
	if isNull, err := p.begin('{', "an object"); isNull || err != nil {
		return err
	}
	for p.PeekKind() != '}' {
		name, err := p.ReadToken()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := p.ReadToken()
	return err
}

// list parses a list. It calls element at the start of each element.
func (p docParser) list(element func() error) error {
	if isNull, err := p.begin('[', "a list"); isNull || err != nil {
		return err
	}
	for p.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := p.ReadToken()
	return err
}

// begin reads the first token of an object or list, or null.
func (p docParser) begin(kind jsontext.Kind, want string) (isNull bool, err error) {
	switch p.PeekKind() {
	case kind, 0, 'n': // kind 0 is a syntax error, which ReadToken returns
	default:
		return false, p.typeError(want)
	}
	token, err := p.ReadToken()
	return token.Kind() == 'n', err
}

// typeError returns the error that the next value has the wrong type.
func (p docParser) typeError(want string) error {
	value, err := p.ReadValue()
	if err != nil {
		return err
	}
	name, got := "the request", kindName(value.Kind())
	if pointer := p.StackPointer(); pointer != "" {
		name = fmt.Sprintf("%.100s", strings.TrimPrefix(string(pointer), "/"))
	}
	if got == "a number" {
		got = fmt.Sprintf("%.40s", value)
	}
	return fmt.Errorf("%s is %s, but must be %s", name, got, want)
}

// kindName names a kind of JSON value for messages.
func kindName(kind jsontext.Kind) string {
	names := map[jsontext.Kind]string{'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number",
		'{': "an object", '[': "a list"}
	return names[kind]
}

// text parses a string.
func (p docParser) text(s *string) error {
	switch p.PeekKind() {
	case '"', 0:
		token, err := p.ReadToken()
		if err == nil {
			*s = token.String()
		}
		return err
	case 'n':
		return p.SkipValue()
	}
	return p.typeError("a string")
}

// boolean parses true or false.
func (p docParser) boolean(b **bool) error {
	switch p.PeekKind() {
	case 't', 'f', 0:
		token, err := p.ReadToken()
		if err == nil {
			value := token.Bool()
			*b = &value
		}
		return err
	case 'n':
		return p.SkipValue()
	}
	return p.typeError("true or false")
}

// integer parses an integer.
func (p docParser) integer(n **int) error {
	const want = "an integer of 64 bits"
	switch p.PeekKind() {
	case '0', 0:
		value, err := p.ReadValue()
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(string(value))
		if err != nil {
			return fmt.Errorf("%s is %.40s, but must be %s", strings.TrimPrefix(string(p.StackPointer()), "/"), value, want)
		}
		*n = &number
		return nil
	case 'n':
		return p.SkipValue()
	}
	return p.typeError(want)
}

// parameters parses the parameters of the request, an input or an output.
func (p docParser) parameters(dst *parameters) error {
	return p.object(func(name string) error {
		switch name {
		case "binary_data_size":
			return p.integer(&dst.BinaryDataSize)
		case "binary_data":
			return p.boolean(&dst.BinaryData)
		case "binary_data_output":
			return p.boolean(&dst.BinaryDataOutput)
		}
		return p.SkipValue()
	})
}

// input parses an input and appends it to doc.
func (p docParser) input(doc *requestDoc) error {
	in := tensorDoc{}
	err := p.objectOnly(func(name string) (err error) {
		switch name {
		case "name":
			return p.text(&in.Name)
		case "datatype":
			return p.text(&in.Datatype)
		case "shape":
			return p.shape(&in.Shape)
		case "parameters":
			return p.parameters(&in.Parameters)
		case "data":
			if p.PeekKind() == 'n' {
				return p.SkipValue()
			}
			in.Data, err = p.ReadValue()
			return err
		}
		return p.SkipValue()
	})
	if err != nil {
		return err
	}
	if !hasPort(p.model.inputs, in.Name) {
		return fmt.Errorf("the model has no input %.100q; its inputs are %s", in.Name, portNames(p.model.inputs))
	}
	if slices.ContainsFunc(doc.Inputs, func(other tensorDoc) bool { return other.Name == in.Name }) {
		return fmt.Errorf("input %q is given twice", in.Name)
	}
	doc.Inputs = append(doc.Inputs, in)
	return nil
}

// output parses an output and appends it to doc.
func (p docParser) output(doc *requestDoc) error {
	output := outputDoc{}
	err := p.objectOnly(func(name string) error {
		switch name {
		case "name":
			return p.text(&output.Name)
		case "parameters":
			return p.parameters(&output.Parameters)
		}
		return p.SkipValue()
	})
	if err != nil {
		return err
	}
	if !hasPort(p.model.outputs, output.Name) {
		return fmt.Errorf("the model has no output %.100q; its outputs are %s", output.Name, portNames(p.model.outputs))
	}
	if slices.ContainsFunc(doc.Outputs, func(other outputDoc) bool { return other.Name == output.Name }) {
		return fmt.Errorf("output %q is requested twice", output.Name)
	}
	doc.Outputs = append(doc.Outputs, output)
	return nil
}

// objectOnly is [docParser.object] for an object that must not be null.
func (p docParser) objectOnly(member func(name string) error) error {
	if p.PeekKind() == 'n' {
		return p.typeError("an object")
	}
	return p.object(member)
}

// maxSizes is the maximum number of sizes of a shape, for models whose inputs can have every rank.
const maxSizes = 64

// shape parses a list of sizes.
func (p docParser) shape(shape *[]int) error {
	limit := 0
	for _, in := range p.model.inputs {
		limit = max(limit, len(in.shape))
		if in.shape == nil {
			limit = maxSizes
		}
	}
	*shape = nil
	return p.list(func() error {
		if len(*shape) == limit {
			return fmt.Errorf("a shape has more than %d sizes, the most that an input of the model has", limit)
		}
		var size *int
		if p.PeekKind() == 'n' {
			return p.typeError("an integer")
		}
		if err := p.integer(&size); err != nil {
			return err
		}
		*shape = append(*shape, *size)
		return nil
	})
}

// hasPort reports whether list has a port with the given name.
func hasPort(list []port, name string) bool {
	return slices.ContainsFunc(list, func(p port) bool { return p.name == name })
}
