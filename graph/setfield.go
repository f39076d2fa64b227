package graph

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// setField checks attribute f and stores it in dst, its field of the struct.
func setField(f Field, dst reflect.Value, v any, symbols map[string]sym.Int) error {
	if dst.Type() == reflect.TypeFor[*Graph]() {
		g, ok := v.(*Graph)
		if !ok || g == nil {
			return &mismatchError{got: v}
		}
		dst.Set(reflect.ValueOf(g))
		return nil
	}
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer {
		// v may be a pointer: a decomposition passes an optional attribute from another op's struct.
		if v = nil; !p.IsNil() {
			v = p.Elem().Interface()
		}
	}
	if v == nil {
		if f.Default == "none" || dst.Kind() == reflect.Pointer {
			return nil
		}
		return fmt.Errorf("the value must not be null")
	}
	if p, ok := dst.Addr().Interface().(*IntsOrWord); ok && p.setWord(v, f.Words) {
		return nil
	}
	if err := setValue(dst, v, symbols); err != nil {
		return err
	}
	if n, found := findTooLarge(dst); found && !f.AnyInt {
		return fmt.Errorf("%d is out of range: integers from -2^47 to 2^47 are accepted", n)
	}
	if w, ok := dst.Addr().Interface().(*IntsOrWord); ok && w.Word != "" && !slices.Contains(f.Words, w.Word) {
		return f.unknownWord(w.Word, symbols)
	}
	if f.Len > 0 {
		if dst.Len() == 1 {
			for dst.Len() < f.Len {
				dst.Set(reflect.Append(dst, dst.Index(0)))
			}
		}
		if dst.Len() != f.Len && !(dst.Len() == 0 && f.Default == "none") {
			return fmt.Errorf("want %d numbers, got %d", f.Len, dst.Len())
		}
	}
	if f.OneOf != nil && !slices.Contains(f.OneOf, dst.String()) {
		similar := suggest.Nearest(dst.String(), slices.Values(f.OneOf))
		return fmt.Errorf("%q is not one of %s%s", dst.String(), strings.Join(f.OneOf, ", "), suggest.DidYouMean(similar))
	}
	return nil
}

// unknownWord is the error of a word that is not in Words.
func (f Field) unknownWord(word string, symbols map[string]sym.Int) error {
	if similar := suggest.Nearest(word, slices.Values(f.Words)); similar != "" {
		return &mismatchError{word, suggest.DidYouMean(similar)}
	}
	return notAnInteger(word, symbols)
}

// setValue stores a JSON or Go value in a field of a matching type.
func setValue(dst reflect.Value, v any, symbols map[string]sym.Int) error {
	if list, ok := v.(elements); ok && len(list) == 1 && dst.Kind() != reflect.Slice &&
		dst.Type() != reflect.TypeFor[IntOrInts]() {
		v = list[0]
	}
	switch p := dst.Addr().Interface().(type) {
	case *bool:
		b, ok := v.(bool)
		if !ok {
			return &mismatchError{got: v}
		}
		*p = b
	case *int:
		i, err := toInt(v, symbols)
		*p = i
		return err
	case *sym.Int:
		i, err := toSize(v, symbols)
		*p = i
		return err
	case *sym.Bool:
		c, err := toCondition(v, symbols)
		*p = c
		return err
	case *float64:
		x, ok := numerals.Float(v)
		if !ok {
			return notANumber(v)
		}
		*p = x
	case *string:
		s, ok := v.(string)
		if !ok {
			return &mismatchError{got: v}
		}
		*p = s
	case *tensor.Scalar:
		n, err := toNumber(v, symbols)
		if *p = n.Number; err == nil && n.Number.DType() == tensor.Invalid {
			*p = tensor.IntScalar(int64(n.Size.Specialize()))
		}
		return err
	case *NumberOrSize:
		n, err := toNumber(v, symbols)
		*p = n
		return err
	case *tensor.DType:
		return setNamed(p, v, tensor.ParseDType)
	case *tensor.MemoryFormat:
		return setNamed(p, v, tensor.ParseMemoryFormat)
	case *IntsOrWord:
		return p.set(v, symbols)
	case *IntOrInts:
		return p.set(v, symbols)
	default:
		return setCompound(dst, v, symbols)
	}
	return nil
}

func (p *IntsOrWord) set(v any, symbols map[string]sym.Int) error {
	if s, ok := v.(string); ok {
		if _, err := expressionIn(s, symbols); err != nil && !isExpression(s) {
			p.Word = s
			return nil
		}
	}
	return setValue(reflect.ValueOf(&p.Ints).Elem(), v, symbols)
}

func (p *IntOrInts) set(v any, symbols map[string]sym.Int) error {
	switch v.(type) {
	case []int, []any, elements:
		p.List = []sym.Int{}
		return setValue(reflect.ValueOf(&p.List).Elem(), v, symbols)
	}
	return setValue(reflect.ValueOf(&p.One).Elem(), v, symbols)
}

func setNamed[T any](p *T, v any, parse func(string) (T, error)) error {
	if t, ok := v.(T); ok {
		*p = t
		return nil
	}
	s, ok := v.(string)
	if !ok {
		return &mismatchError{got: v}
	}
	t, err := parse(s)
	*p = t
	return err
}

func setCompound(dst reflect.Value, v any, symbols map[string]sym.Int) error {
	if dst.Kind() == reflect.Pointer {
		e := reflect.New(dst.Type().Elem())
		if err := setValue(e.Elem(), v, symbols); err != nil {
			return err
		}
		dst.Set(e)
		return nil
	}
	src := reflect.ValueOf(v)
	if src.Kind() != reflect.Slice {
		// A single number is a list of length 1.
		src = reflect.ValueOf([]any{v})
	}
	list := reflect.MakeSlice(dst.Type(), src.Len(), src.Len())
	for i := range src.Len() {
		if err := setValue(list.Index(i), src.Index(i).Interface(), symbols); err != nil {
			return err
		}
	}
	dst.Set(list)
	return nil
}
