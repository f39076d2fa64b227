// Package document writes the JSON documents of commands and derives their JSON Schemas.
//
// A document is a struct. The json tag of a field is its key, and the doc tag is its description. [Schema] returns the
// JSON Schema of a struct, and [Write] writes a struct as JSON. Commands print their text output from the same struct.
package document

import (
	"bufio"
	"bytes"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/report"
)

// Version is the version of every document.
const Version = 1

// Stream is a list in a document. Its items are computed one at a time, while the document is written. The pointer that
// yield receives is valid during the call only. A stream that is written must not be nil.
type Stream[T any] func(yield func(item *T) bool)

// anyStream is a [Stream] of any item type.
type anyStream interface {
	each(visit func(item any)) // calls visit with a pointer to each item
	Item() any
}

func (s Stream[T]) each(visit func(item any)) {
	s(func(item *T) bool { visit(item); return true })
}

// Item returns a nil pointer of type *T, from which callers get the type of an item. A result of type reflect.Type
// would slow builds: every package with a Stream would also compile the generic iterators of reflect.Type.
func (Stream[T]) Item() any { return (*T)(nil) }

// StreamOf returns a stream of the items of a list, converted by doc.
func StreamOf[A, T any](list []A, doc func(A) T) Stream[T] {
	return func(yield func(*T) bool) {
		var item T
		for _, a := range list {
			item = doc(a)
			if !yield(&item) {
				return
			}
		}
	}
}

// TextOrNull is a string. The empty string is written as null.
type TextOrNull string

// MarshalJSONTo writes the string, or null.
func (s TextOrNull) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if s == "" {
		return encoder.WriteToken(jsontext.Null)
	}
	return encoder.WriteToken(jsontext.String(string(s)))
}

func (TextOrNull) mayBeNull() {}

// ListOrNull is a list. A nil list is written as null.
type ListOrNull[T any] []T

// MarshalJSONTo writes the list, or null.
func (l ListOrNull[T]) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if l == nil {
		return encoder.WriteToken(jsontext.Null)
	}
	return json.MarshalEncode(encoder, []T(l))
}

func (ListOrNull[T]) mayBeNull() {}

// valueOptions are the options for encoding the values of a document. Invalid UTF-8 becomes the replacement character.
var valueOptions = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true),
	jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))

// Write writes a document. doc is a pointer to a struct. Each key of the struct and each item of a list of objects is
// on its own line. The caller gets an error of w from w.Flush. Write panics if a value cannot be encoded.
func Write(w *bufio.Writer, doc any) {
	enc := jsontext.NewEncoder(withoutNewlines{w}, valueOptions)
	writeValue := func(value any) {
		err := json.MarshalEncode(enc, value)
		if _, writeErr := w.Write(nil); err != nil && writeErr == nil {
			panic("graphrun: every document can be encoded: " + err.Error())
		}
	}
	w.WriteString(`{"version": `)
	writeValue(Version)
	for f, value := range membersOf(reflect.ValueOf(doc).Elem()) {
		w.WriteString(",\n ")
		writeValue(f.key)
		w.WriteString(": ")
		switch stream, isStream := value.Interface().(anyStream); {
		case isStream:
			writeLines(w, stream.each, writeValue)
		case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct:
			eachElement := func(visit func(item any)) {
				for i := range value.Len() {
					visit(value.Index(i).Addr().Interface())
				}
			}
			writeLines(w, eachElement, writeValue)
		default:
			writeValue(value.Interface())
		}
	}
	w.WriteString("}\n")
}

// withoutNewlines writes to w, without the newline that an encoder writes after a value. Values have no other newlines.
type withoutNewlines struct{ w *bufio.Writer }

// Write writes p.
func (n withoutNewlines) Write(p []byte) (int, error) {
	_, err := n.w.Write(bytes.TrimSuffix(p, []byte("\n")))
	return len(p), err
}

// writeLines writes a list, each item on its own line. each calls visit with each item of the list.
func writeLines(w *bufio.Writer, each func(visit func(item any)), writeValue func(any)) {
	const first = "[\n  "
	separator := first // the text before the next item
	each(func(item any) {
		w.WriteString(separator)
		writeValue(item)
		separator = ",\n  "
	})
	if separator == first { // an empty list
		w.WriteByte('[')
	}
	w.WriteByte(']')
}

// member is a key of a document.
type member struct {
	key      string
	optional bool // the key is omitted if its value is zero
	field    reflect.StructField
}

// membersOf iterates over the keys of a struct and their values. It includes keys of embedded structs, and skips
// optional keys with zero values and keys of nil embedded structs.
func membersOf(structure reflect.Value) func(yield func(member, reflect.Value) bool) {
	return func(yield func(member, reflect.Value) bool) {
		for _, f := range reflect.VisibleFields(structure.Type()) {
			found, ok := memberOf(f)
			if !ok {
				continue
			}
			value, err := structure.FieldByIndexErr(f.Index) // fails in a nil embedded struct
			if err != nil || found.optional && value.IsZero() {
				continue
			}
			if !yield(found, value) {
				return
			}
		}
	}
}

// memberOf reads a field's tags. It returns false for a field without a key.
func memberOf(f reflect.StructField) (member, bool) {
	key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	isOptional := strings.Contains(options, "omit") // omitempty or omitzero
	return member{key, isOptional, f}, key != "" && key != "-"
}

// mistakeOf returns an error of a graph as a part of a document. The message has no names of Go types.
func mistakeOf(e *graph.Error) report.Mistake {
	m := e.Mistake()
	m.Message = exit.Message(e.Err)
	return m
}

// Mistakes returns errors of a graph as a part of a document.
func Mistakes(errs []*graph.Error) []report.Mistake {
	list := make([]report.Mistake, len(errs))
	for i, e := range errs {
		list[i] = mistakeOf(e)
	}
	return list
}
