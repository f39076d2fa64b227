package graph

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/graphrun/graphrun/tensor"
)

// scanner reads JSON by kind, keeping track of places. It is the only user of the JSON
// library, which is still experimental.
type scanner struct {
	dec  *jsontext.Decoder
	data []byte
}

func newScanner(data []byte) *scanner {
	return &scanner{jsontext.NewDecoder(bytes.NewBuffer(data)), data}
}

// at returns the offset at which the next token starts.
func (s *scanner) at() int {
	at := int(s.dec.InputOffset())
	for at < len(s.data) && strings.IndexByte(" \t\r\n,:", s.data[at]) >= 0 {
		at++
	}
	return at
}

// want reads a token of the kind.
func (s *scanner) want(kind jsontext.Kind, what string) (jsontext.Token, error) {
	at := s.at()
	if got := s.dec.PeekKind(); got != kind && got != 0 {
		return jsontext.Token{}, &placeError{at, fmt.Errorf("want %s, got %s", what, kindName(got))}
	}
	return s.dec.ReadToken()
}

// placeError is a mistake of shape, rather than of syntax, at an offset.
type placeError struct {
	at  int
	err error
}

// Error prints the mistake without its place.
func (e *placeError) Error() string { return e.err.Error() }

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return k.String()
}

// object reads an object and calls f at each value with its key and the key's offset.
func (s *scanner) object(f func(key string, at int) error) error {
	if _, err := s.want('{', "an object"); err != nil {
		return err
	}
	for s.dec.PeekKind() != '}' {
		at := s.at()
		tok, err := s.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := f(tok.String(), at); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// array reads a list and calls f at each element with its offset.
func (s *scanner) array(f func(at int) error) error {
	if _, err := s.want('[', "a list"); err != nil {
		return err
	}
	for s.dec.PeekKind() != ']' {
		before := s.dec.InputOffset()
		if err := f(s.at()); err != nil {
			return err
		}
		if s.dec.InputOffset() == before {
			return fmt.Errorf("unexpected end of JSON")
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

func (s *scanner) isText() bool { return s.dec.PeekKind() == '"' }

func (s *scanner) text(p *string) error {
	tok, err := s.want('"', "a string")
	if err == nil {
		*p = tok.String()
	}
	return err
}

func (s *scanner) integer(p *int) error {
	at := s.at()
	tok, err := s.want('0', "an integer")
	if err != nil {
		return err
	}
	i, err := strconv.Atoi(tok.String())
	if err != nil {
		return &placeError{at, fmt.Errorf("want an integer, got %s", tok.String())}
	}
	*p = i
	return nil
}

func (s *scanner) format(l *loader, p *tensor.MemoryFormat) error {
	at := s.at()
	var name string
	if s.dec.PeekKind() == 'n' {
		return s.skip()
	}
	if err := s.text(&name); err != nil {
		return err
	}
	f, err := tensor.ParseMemoryFormat(name)
	if err == nil && f == tensor.Preserve {
		err = fmt.Errorf("memory format preserve cannot be demanded")
	}
	if err != nil {
		l.failAt(at, "%v", err)
	}
	*p = f
	return nil
}

func (s *scanner) skip() error { return s.dec.SkipValue() }

// raw returns the bytes of the next value.
func (s *scanner) raw() ([]byte, error) {
	v, err := s.dec.ReadValue()
	return bytes.Clone(v), err
}

// end reports anything that stands after the top-level value.
func (s *scanner) end() error {
	if at := s.at(); at < len(s.data) {
		return &placeError{at, fmt.Errorf("unexpected text after the end of the graph")}
	}
	return nil
}

// value reads any value: nil, bool, int64, float64, string, []any or map[string]any. A
// number is an int64 if it is written without a point and exponent and fits.
func (s *scanner) value() (any, error) {
	switch s.dec.PeekKind() {
	case '{':
		m := map[string]any{}
		err := s.object(func(key string, _ int) error {
			v, err := s.value()
			m[key] = v
			return err
		})
		return m, err
	case '[':
		list := []any{}
		err := s.array(func(int) error {
			v, err := s.value()
			list = append(list, v)
			return err
		})
		return list, err
	}
	tok, err := s.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case '"':
		return tok.String(), nil
	case '0':
		return number(tok.String())
	}
	return nil, nil
}

func number(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
	}
	return strconv.ParseFloat(text, 64)
}
