package onnxpb

import (
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxDepth is the maximum number of nested messages, as in protobuf's libraries.
const maxDepth = protowire.DefaultRecursionLimit

// ErrInvalid is the error of bytes that do not encode a message.
var ErrInvalid = errors.New("invalid protobuf encoding")

// A Message is a pointer to one of the structs of this package.
type Message interface {
	// fields lists the fields of the message by number, as in
	//
	//	c.codeText(1, &m.Domain)
	//	codeNumber(c, 2, int64Format, &m.Version)
	//
	// When it encodes, the coder appends each field that is set. When it decodes, it stores the field that it has read;
	// fields is called once for each field in the data.
	fields(c *coder)
}

// Marshal returns the encoding of m. Scalars that are zero are omitted, as in proto3. The encoding of a field is a tag,
// which has the number and the wire type of the field, and the value. For example, the text "ai" in field 1 has the
// bytes 0a 02 61 69: the tag (number 1, wire type 2: bytes), the length 2, and the letters.
func Marshal(m Message) []byte {
	c := coder{encodes: true}
	m.fields(&c)
	return c.out
}

// Unmarshal decodes data into m, and keeps no reference to data. As protobuf requires, a scalar replaces the field of
// m, a message is merged into it, and repeated fields are appended. After ErrInvalid, m may have a part of the fields.
func Unmarshal(data []byte, m Message) error { return decode(data, m, 0) }

// decode is Unmarshal for a message inside of depth other messages.
func decode(data []byte, m Message, depth int) error {
	if depth > maxDepth {
		return ErrInvalid
	}
	reader := coder{depth: depth}
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return ErrInvalid
		}
		size := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if size < 0 {
			return ErrInvalid
		}
		reader.number, reader.kind, reader.value = number, kind, data[tag:tag+size]
		if kind == protowire.BytesType {
			reader.value, _ = protowire.ConsumeBytes(reader.value)
		}
		if m.fields(&reader); reader.err != nil {
			return reader.err
		}
		data = data[tag+size:]
	}
	return nil
}

// coder encodes the fields of a message, or decodes one of them: "code" stands for both. The code methods take the
// number n of a field, and its address. A coder that encodes appends field n if it is set. A coder that decodes stores
// the value of the field that was read if this is field n. A field with another wire type than the message declares is
// skipped, as protobuf skips unknown fields.
type coder struct {
	encodes bool
	out     []byte // the encoded fields

	number protowire.Number // the decoded field
	kind   protowire.Type
	value  []byte // without a length before it
	depth  int    // number of enclosing messages
	err    error
}

// hasDecoded reports whether the coder decodes, and has read field n with the given wire type.
func (c *coder) hasDecoded(n protowire.Number, kind protowire.Type) bool {
	return !c.encodes && c.number == n && c.kind == kind
}

// beginField appends the tag of field n if the coder encodes and the field is set. It reports whether it did.
func (c *coder) beginField(n protowire.Number, kind protowire.Type, set bool) bool {
	if c.encodes && set {
		c.out = protowire.AppendTag(c.out, n, kind)
	}
	return c.encodes && set
}

// codeMessage codes a message. It reports whether it has decoded the field. P is *M: M is needed for new(M), and P has
// the methods.
func codeMessage[M any, P interface {
	*M
	Message
}](c *coder, n protowire.Number, field **M) bool {
	if c.beginField(n, protowire.BytesType, *field != nil) {
		c.out = protowire.AppendBytes(c.out, Marshal(P(*field)))
	}
	if !c.hasDecoded(n, protowire.BytesType) {
		return false
	}
	if *field == nil {
		*field = new(M)
	}
	c.err = decode(c.value, P(*field), c.depth+1)
	return true
}

// codeMessages codes a list of messages.
func codeMessages[M any, P interface {
	*M
	Message
}](c *coder, n protowire.Number, field *[]*M) {
	if c.encodes {
		for _, m := range *field {
			codeMessage[M, P](c, n, &m)
		}
	} else if c.hasDecoded(n, protowire.BytesType) {
		var m *M
		codeMessage[M, P](c, n, &m)
		*field = append(*field, m)
	}
}

// codeText codes a string, which must be UTF-8. It reports whether it has decoded the field.
func (c *coder) codeText(n protowire.Number, field *string) bool {
	if c.beginField(n, protowire.BytesType, *field != "") {
		c.out = protowire.AppendString(c.out, *field)
	}
	if !c.hasDecoded(n, protowire.BytesType) {
		return false
	}
	if *field = string(c.value); !utf8.ValidString(*field) {
		c.err = ErrInvalid
	}
	return true
}

// codeTexts codes a list of strings.
func (c *coder) codeTexts(n protowire.Number, field *[]string) {
	if c.encodes {
		for _, text := range *field {
			c.beginField(n, protowire.BytesType, true)
			c.out = protowire.AppendString(c.out, text)
		}
		return
	}
	var text string
	if c.codeText(n, &text) {
		*field = append(*field, text)
	}
}

// codeBytes codes a byte string, which is omitted if it is empty.
func (c *coder) codeBytes(n protowire.Number, field *[]byte) {
	if c.beginField(n, protowire.BytesType, len(*field) > 0) {
		c.out = protowire.AppendBytes(c.out, *field)
	}
	if c.hasDecoded(n, protowire.BytesType) {
		*field = slices.Clone(c.value)
	}
}

// codeByteStrings codes a list of byte strings.
func (c *coder) codeByteStrings(n protowire.Number, field *[][]byte) {
	if c.encodes {
		for _, b := range *field {
			c.beginField(n, protowire.BytesType, true)
			c.out = protowire.AppendBytes(c.out, b)
		}
	} else if c.hasDecoded(n, protowire.BytesType) {
		*field = append(*field, slices.Clone(c.value))
	}
}

// A format is the encoding of a type of numbers: its wire type, and conversions to and from unsigned integers.
type format[T any] struct {
	kind   protowire.Type
	encode func(T) uint64
	decode func(uint64) T
}

// A negative int32 is encoded with the sign extended to 64 bits, as protobuf requires.
var (
	int32Format = format[int32]{protowire.VarintType, func(v int32) uint64 { return uint64(v) },
		func(word uint64) int32 { return int32(word) }}
	int64Format = format[int64]{protowire.VarintType, func(v int64) uint64 { return uint64(v) },
		func(word uint64) int64 { return int64(word) }}
	uint64Format = format[uint64]{protowire.VarintType, func(v uint64) uint64 { return v },
		func(word uint64) uint64 { return word }}
	float32Format = format[float32]{protowire.Fixed32Type, func(v float32) uint64 { return uint64(math.Float32bits(v)) },
		func(word uint64) float32 { return math.Float32frombits(uint32(word)) }}
	float64Format = format[float64]{protowire.Fixed64Type, math.Float64bits, math.Float64frombits}
)

// codeNumber codes a number, which is omitted if all its bits are zero (so -0.0 is not omitted).
func codeNumber[T any](c *coder, n protowire.Number, encoding format[T], field *T) {
	if c.encodes && encoding.encode(*field) == 0 {
		return
	}
	codeOptionalNumber(c, n, encoding, &field)
}

// codeOptionalNumber codes a number that is omitted if it is nil. It reports whether it has decoded the field.
func codeOptionalNumber[T any](c *coder, n protowire.Number, encoding format[T], field **T) bool {
	if c.beginField(n, encoding.kind, *field != nil) {
		c.out = appendWord(c.out, encoding.kind, encoding.encode(**field))
	}
	if !c.hasDecoded(n, encoding.kind) {
		return false
	}
	word, _ := consumeWord(c.value, encoding.kind)
	if *field == nil {
		*field = new(T)
	}
	**field = encoding.decode(word)
	return true
}

// codeNumbers codes a list of numbers. It encodes the packed form, and decodes both forms.
func codeNumbers[T any](c *coder, n protowire.Number, encoding format[T], field *[]T) {
	switch {
	case c.beginField(n, protowire.BytesType, len(*field) > 0):
		var packed []byte
		for _, value := range *field {
			packed = appendWord(packed, encoding.kind, encoding.encode(value))
		}
		c.out = protowire.AppendBytes(c.out, packed)
	case c.hasDecoded(n, encoding.kind):
		word, _ := consumeWord(c.value, encoding.kind)
		*field = append(*field, encoding.decode(word))
	case c.hasDecoded(n, protowire.BytesType):
		for remaining := c.value; len(remaining) > 0; {
			word, size := consumeWord(remaining, encoding.kind)
			if size < 0 {
				c.err = ErrInvalid
				return
			}
			*field, remaining = append(*field, encoding.decode(word)), remaining[size:]
		}
	}
}

// appendWord appends a number in the encoding of a wire type.
func appendWord(out []byte, kind protowire.Type, word uint64) []byte {
	switch kind {
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(out, uint32(word))
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(out, word)
	}
	return protowire.AppendVarint(out, word)
}

// consumeWord returns a number and its size in bytes, which is negative if data does not begin with a number.
func consumeWord(data []byte, kind protowire.Type) (uint64, int) {
	switch kind {
	case protowire.Fixed32Type:
		word, size := protowire.ConsumeFixed32(data)
		return uint64(word), size
	case protowire.Fixed64Type:
		return protowire.ConsumeFixed64(data)
	}
	return protowire.ConsumeVarint(data)
}
