package graphfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/tensor"
)

// scanner reads JSON values of expected kinds and tracks offsets.
//
// Methods return only syntax errors, which end the reading. A value of the wrong kind is passed to report and skipped,
// so that one pass finds all mistakes. The kind of a value is a byte (jsontext.Kind): '{', '[', '"', '0' for a number,
// 't', 'f', 'n' for null, and 0 at a syntax error. For example, this reads {"min": 1, "max": "a"} into low and high,
// reports that the maximum is a string, and returns nil:
//
//	s.object(func(key string, offset int) error {
//		if key == "min" {
//			return s.integerTo(&low)
//		}
//		return s.integerTo(&high)
//	})
type scanner struct {
	dec    *jsontext.Decoder
	data   []byte
	base   int // offset of data in the file
	report func(offset int, err error)
	keys   map[string]string // maps each key to one string, so that equal keys share memory
}

func newScanner(data []byte, report func(offset int, err error)) *scanner {
	return &scanner{dec: jsontext.NewDecoder(bytes.NewBuffer(data)), data: data, report: report, keys: map[string]string{}}
}

// object reads an object. At each value, it calls readValue with the key and the offset of the key.
func (s *scanner) object(readValue func(key string, offset int) error) error {
	if ok, err := s.expect('{', "an object"); !ok {
		return err
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	for s.dec.PeekKind() == '"' {
		offset := s.offset()
		key, err := s.key()
		if err != nil {
			return err
		}
		if err := readValue(key, offset); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// array reads a list. At each element, it calls readElement with the offset of the element.
func (s *scanner) array(readElement func(offset int) error) error {
	if ok, err := s.expect('[', "a list"); !ok {
		return err
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	for {
		switch s.dec.PeekKind() {
		case ']', '}', 0: // the end, or a syntax error, which ReadToken returns
			_, err := s.dec.ReadToken()
			return err
		}
		if err := readElement(s.offset()); err != nil {
			return err
		}
	}
}

// value reads any value: nil, bool, int64, float64, string, []any or map[string]any. A number is an int64 if
// it has neither a point nor an exponent.
func (s *scanner) value() (any, error) {
	switch s.dec.PeekKind() {
	case '{':
		object := map[string]any{}
		err := s.object(func(key string, _ int) error {
			v, err := s.value()
			object[key] = v
			return err
		})
		return object, err
	case '[':
		list := []any{}
		err := s.array(func(int) error {
			v, err := s.value()
			list = append(list, v)
			return err
		})
		return list, err
	}
	offset := s.offset()
	token, err := s.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case '"':
		return token.String(), nil
	case '0':
		v, err := parseNumber(token.String())
		if err != nil {
			s.report(offset, err)
		}
		return v, nil
	}
	return nil, nil
}

// parseNumber parses an integer or a floating-point number. As in Python, a number with a point or an exponent is a
// float.
func parseNumber(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return i, fmt.Errorf("%s is no 64-bit integer", text)
		}
		return i, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return x, fmt.Errorf("%s is too large for a 64-bit float", text)
	}
	return x, nil
}

// stringTo reads a string into *target. It reports any other value as a mistake, and does not change *target.
func (s *scanner) stringTo(target *string) error {
	if ok, err := s.expect('"', "a string"); !ok {
		return err
	}
	raw, err := s.stringContents()
	*target = string(raw)
	return err
}

// integerTo reads an integer into *target. It reports any other value as a mistake, and does not change *target.
func (s *scanner) integerTo(target *int) error {
	offset := s.offset()
	if ok, err := s.expectNumber("an integer"); !ok {
		return err
	}
	token, err := s.dec.ReadToken()
	if err != nil {
		return err
	}
	i, err := strconv.Atoi(token.String())
	if err != nil {
		s.report(offset, fmt.Errorf("want an integer, got %s", token.String()))
		return nil
	}
	*target = i
	return nil
}

// expectNumber reports whether the next value is a number: see expect.
func (s *scanner) expectNumber(want string) (bool, error) { return s.expect('0', want) }

// formatTo reads the name of a memory format, or null.
func (s *scanner) formatTo(target *tensor.MemoryFormat) error {
	offset := s.offset()
	var name string
	if s.dec.PeekKind() == 'n' {
		return s.skip()
	}
	if ok, err := s.expect('"', "a memory format"); !ok {
		return err
	}
	if err := s.stringTo(&name); err != nil {
		return err
	}
	f, err := tensor.ParseMemoryFormat(name)
	if err == nil && f == tensor.Preserve {
		err = errors.New("memory format \"preserve\" is not allowed here")
	}
	if err != nil {
		s.report(offset, err)
		return nil
	}
	*target = f
	return nil
}

// orderTo reads a list of dimensions, slowest first.
func (s *scanner) orderTo(target *tensor.Order) error {
	offset := s.offset()
	dims := []int{}
	err := s.array(func(int) error {
		var dim int
		err := s.integerTo(&dim)
		dims = append(dims, dim)
		return err
	})
	if err != nil {
		return err
	}
	order, err := tensor.NewOrder(dims...)
	if err != nil {
		s.report(offset, err)
		return nil
	}
	*target = order
	return nil
}

// key reads a key. Equal keys share their memory.
func (s *scanner) key() (string, error) {
	raw, err := s.stringContents()
	if err != nil {
		return "", err
	}
	if key, ok := s.keys[string(raw)]; ok {
		return key, nil
	}
	key := string(raw)
	s.keys[key] = key
	return key, nil
}

// stringContents reads the next value, which must be a string, and returns its contents. The bytes are valid until the
// next call of a method.
func (s *scanner) stringContents() ([]byte, error) {
	raw, err := s.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	return jsontext.AppendUnquote(nil, raw)
}

// raw returns the bytes of the next value. The result is a slice of the file's bytes.
func (s *scanner) raw() ([]byte, error) {
	value, err := s.dec.ReadValue()
	end := int(s.dec.InputOffset()) // the value ends at the decoder's offset
	return s.data[end-len(value) : end : end], err
}

func (s *scanner) skip() error { return s.dec.SkipValue() }

func (s *scanner) nextIsString() bool { return s.dec.PeekKind() == '"' }

// expect reports whether the next value has the kind. It does not read a value of this kind. It reports and skips a
// value of another kind, and returns a syntax error. want describes the kind for messages.
func (s *scanner) expect(kind jsontext.Kind, want string) (bool, error) {
	switch got := s.dec.PeekKind(); got {
	case kind:
		return true, nil
	case 0, '}', ']':
		// PeekKind hides syntax errors; ReadToken returns them.
		_, err := s.dec.ReadToken()
		if err == nil {
			err = fmt.Errorf("want %s, got %q", want, got)
		}
		return false, err
	default:
		s.report(s.offset(), fmt.Errorf("want %s, got %s", want, kindName(got)))
		return false, s.dec.SkipValue()
	}
}

// kindName returns the name of a kind of JSON value for messages.
func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't':
		return "true"
	case 'f':
		return "false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	}
	return "a list"
}

// offset returns the offset in the file of the next token: after blanks, commas and colons.
func (s *scanner) offset() int {
	offset := int(s.dec.InputOffset())
	for offset < len(s.data) && strings.IndexByte(" \t\r\n,:", s.data[offset]) >= 0 {
		offset++
	}
	return s.base + offset
}

// checkEnd reports a mistake if there is text after the top-level value.
func (s *scanner) checkEnd() {
	if offset := s.offset(); offset < s.base+len(s.data) {
		s.report(offset, fmt.Errorf("unexpected text after the end of the graph"))
	}
}
