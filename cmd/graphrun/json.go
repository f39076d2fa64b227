package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/graph"
)

// appendText appends a string as JSON. Invalid UTF-8 becomes the replacement character.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

func appendInts(b []byte, v []int) []byte {
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return append(b, ']')
}

// appendValue appends what infer says of a value.
func appendValue(b []byte, v *graph.Value) []byte {
	b = appendText(append(b, `  {"name": `...), v.Name)
	b = appendText(append(b, `, "op": `...), v.Kind())
	if v.Dynamic {
		return appendDynamic(b, v)
	}
	b = appendText(append(b, `, "dtype": `...), v.Meta.DType.String())
	b = appendInts(append(b, `, "shape": `...), v.Meta.Shape)
	b = appendInts(append(b, `, "strides": `...), v.Meta.Strides)
	b = strconv.AppendInt(append(b, `, "offset": `...), int64(v.Meta.Offset), 10)
	b = append(b, `, "flags": [`...)
	for i, f := range v.Meta.Flags() {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendText(b, f)
	}
	b = append(b, `], "alias_of": `...)
	if v.Alias == nil {
		return append(b, "null}"...)
	}
	return append(appendText(b, v.Alias.Name), '}')
}

// appendDynamic appends what is known of a value whose shape depends on data: at most its
// dtype.
func appendDynamic(b []byte, v *graph.Value) []byte {
	b = append(b, `, "dtype": `...)
	if d := dtypeOrUnknown(v, ""); d != "" {
		b = appendText(b, d)
	} else {
		b = append(b, "null"...)
	}
	return append(b, `, "shape": null, "strides": null, "offset": null, "flags": [], "alias_of": null, "dynamic": true}`...)
}

// appendError appends a mistake: node and message, and where known op and place.
func appendError(b []byte, e *graph.Error) []byte {
	b = appendText(append(b, `  {"node": `...), e.Node)
	if e.Op != "" {
		b = appendText(append(b, `, "op": `...), e.Op)
	}
	b = appendText(append(b, `, "message": `...), plain(e.Err))
	if e.Line > 0 {
		b = appendText(append(b, `, "file": `...), e.File)
		b = strconv.AppendInt(append(b, `, "line": `...), int64(e.Line), 10)
		b = strconv.AppendInt(append(b, `, "col": `...), int64(e.Col), 10)
	}
	return append(b, '}')
}

// document streams a JSON object whose lists have an item a line. Errors of the writer
// come out at its Flush; values that cannot be encoded are mistakes in the program.
type document struct {
	w   *bufio.Writer
	sep string
}

// documentVersion is that of every JSON document that a command prints.
const documentVersion = 1

func newDocument(w *bufio.Writer) *document {
	d := &document{w, "{"}
	d.field("version", documentVersion)
	return d
}

func (d *document) key(name string) {
	d.w.WriteString(d.sep)
	d.w.Write(appendText(nil, name))
	d.w.WriteString(": ")
	d.sep = ",\n "
}

func (d *document) field(name string, v any) {
	d.key(name)
	d.w.Write(compact(v))
}

func (d *document) list(name string, n int, item func(i int) any) {
	d.items(name, n, func(i int) { d.w.Write(compact(item(i))) })
}

// items writes a list, one element a line.
func (d *document) items(name string, n int, write func(i int)) {
	d.key(name)
	d.w.WriteByte('[')
	for i := range n {
		if i > 0 {
			d.w.WriteByte(',')
		}
		d.w.WriteString("\n  ")
		write(i)
	}
	d.w.WriteByte(']')
}

func (d *document) end() { d.w.WriteString("}\n") }

func compact(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("graphrun: every document can be encoded: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// objects is a list of objects whose fields stand on one line each.
func (d *document) objects(name string, n int, item func(i int, d *document)) {
	d.items(name, n, func(i int) {
		inner := document{w: d.w, sep: "{"}
		item(i, &inner)
		d.w.WriteByte('}')
	})
}
