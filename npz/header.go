package npz

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// maxRank is the greatest rank that numpy and PyTorch allow.
const maxRank = 64

// maxHeader is the maximum size of a header in bytes. The header of an array of numbers has less than 1,000 bytes.
// numpy rejects headers of more than 10,000 bytes if the file is not trusted.
const maxHeader = 1 << 16

// typeCodes maps numpy's type codes, without byte order, to dtypes. numpy has no code for bfloat16. Bits of bfloat16
// numbers are written as uint16.
var typeCodes = map[string]tensor.DType{
	"b1": tensor.Bool, "u1": tensor.Uint8, "i1": tensor.Int8,
	"i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"u2": tensor.Uint16, "u4": tensor.Uint32, "u8": tensor.Uint64,
	"f2": tensor.Float16, "f4": tensor.Float32, "f8": tensor.Float64,
	"c8": tensor.Complex64, "c16": tensor.Complex128,
}

// characterCodes maps numpy's type codes of strings to the dtype of a character. In a header, the code is followed by
// the number of characters.
var characterCodes = map[byte]tensor.DType{'S': tensor.Uint8, 'U': tensor.Uint32}

// codeOf returns the type code of a dtype.
func codeOf(dtype tensor.DType) string {
	for code, coded := range typeCodes {
		if coded == dtype {
			return code
		}
	}
	return "u2" // the bits of bfloat16, the only dtype without a code
}

// header is the parsed header of an .npy file: a Python dictionary, such as
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//
// The key descr has the byte order and the type code of the elements.
type header struct {
	dtype         tensor.DType
	byteOrder     byte // '<': little-endian; '>': big-endian; '|' and '=': no conversion is needed
	stringLength  int  // in characters; 0 for an array of numbers
	isColumnMajor bool
	shape         []int
}

// meta returns the array's meta. Column-major data have column-major strides. For an array of strings, the last
// dimension has the characters of a string, with stride 1.
func (h header) meta() (tensor.Meta, error) {
	shape := h.shape
	if h.stringLength > 0 {
		shape = append(slices.Clone(shape), h.stringLength)
	}
	meta := tensor.New(h.dtype, shape...)
	if h.isColumnMajor {
		stride := max(h.stringLength, 1)
		for d, size := range h.shape {
			meta.Strides[d] = stride
			stride *= max(size, 1)
		}
	}
	return meta, meta.Check()
}

// parseHeader parses the Python dictionary of an .npy header. Like numpy, it requires that each of the three keys
// occurs once, in any order.
func parseHeader(text string) (h header, err error) {
	p := &parser{remaining: text}
	hasKey := map[string]bool{}
	p.expect('{')
	for p.err == nil && !p.skip('}') {
		key := p.quoted()
		p.expect(':')
		if p.err == nil && hasKey[key] {
			return h, fmt.Errorf("header has a duplicate key %q", key)
		}
		hasKey[key] = true
		switch key {
		case "descr":
			h.dtype, h.byteOrder, h.stringLength = p.descr()
		case "fortran_order":
			h.isColumnMajor = p.boolean()
		case "shape":
			h.shape = p.tuple()
		default:
			p.fail("unknown key %q", key)
		}
		if !p.skip(',') {
			p.expect('}')
			break
		}
	}
	if p.err != nil {
		return h, p.err
	}
	if strings.TrimLeft(p.remaining, blanks) != "" {
		return h, fmt.Errorf("header has text after its dictionary: %.20q", p.remaining)
	}
	if len(hasKey) != 3 {
		return h, errors.New("header lacks one of descr, fortran_order and shape")
	}
	return h, nil
}

const blanks = " \t\r\n"

// parser parses Python literals. After the first error its methods do nothing, so that callers check err only at the
// end.
type parser struct {
	remaining string // the text that is not parsed yet
	err       error
}

// fail sets err if no error has occurred before.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("header: "+format, args...)
	}
}

// skip drops white space. If the next byte is c, skip drops it and returns true.
func (p *parser) skip(c byte) bool {
	p.remaining = strings.TrimLeft(p.remaining, blanks)
	if p.remaining == "" || p.remaining[0] != c {
		return false
	}
	p.remaining = p.remaining[1:]
	return true
}

// expect drops white space and the next byte, which must be c.
func (p *parser) expect(c byte) {
	if p.err == nil && !p.skip(c) {
		p.fail("want %q before %.20q", c, p.remaining)
	}
}

// quoted reads a quoted string. It supports no escapes, because valid strings of a header have none.
func (p *parser) quoted() string {
	if p.err != nil {
		return ""
	}
	p.remaining = strings.TrimLeft(p.remaining, blanks)
	if p.remaining != "" && (p.remaining[0] == '\'' || p.remaining[0] == '"') {
		if end := strings.IndexByte(p.remaining[1:], p.remaining[0]); end >= 0 {
			text := p.remaining[1 : end+1]
			p.remaining = p.remaining[end+2:]
			return text
		}
	}
	p.fail("want a string before %.20q", p.remaining)
	return ""
}

// descr reads a type code. For strings it returns the dtype of a character and the number of characters.
func (p *parser) descr() (dtype tensor.DType, byteOrder byte, stringLength int) {
	p.remaining = strings.TrimLeft(p.remaining, blanks)
	if strings.HasPrefix(p.remaining, "[") {
		p.fail("arrays of records are not supported")
	}
	text := p.quoted() // for example "<f4", or "<U10" for strings of 10 characters
	if p.err != nil {
		return tensor.Invalid, 0, 0
	}
	if len(text) > 1 && strings.IndexByte("<>|=", text[0]) >= 0 {
		byteOrder, code := text[0], text[1:]
		if dtype, ok := typeCodes[code]; ok {
			return dtype, byteOrder, 0
		}
		stringLength, err := strconv.Atoi(code[1:])
		if dtype, ok := characterCodes[code[0]]; ok && err == nil && stringLength > 0 {
			return dtype, byteOrder, stringLength
		}
	}
	p.fail("unsupported dtype %.20q", text)
	return tensor.Invalid, 0, 0
}

// boolean reads True or False.
func (p *parser) boolean() bool {
	p.remaining = strings.TrimLeft(p.remaining, blanks)
	for _, word := range []string{"True", "False"} {
		if after, ok := strings.CutPrefix(p.remaining, word); ok {
			p.remaining = after
			return word == "True"
		}
	}
	p.fail("want True or False before %.20q", p.remaining)
	return false
}

// tuple reads a tuple of sizes. As in Python, a tuple of one element needs a comma after it.
func (p *parser) tuple() []int {
	sizes := []int{}
	p.expect('(')
	hasComma := true // after the previous element
	for p.err == nil && !p.skip(')') {
		if !hasComma {
			p.fail("want a comma before %.20q", p.remaining)
			break
		}
		sizes = append(sizes, p.size())
		hasComma = p.skip(',')
		if len(sizes) > maxRank {
			p.fail("more than %d dimensions", maxRank)
		}
	}
	if len(sizes) == 1 && !hasComma {
		p.fail("shape is a number, not a tuple")
	}
	return sizes
}

// size reads a non-negative integer. It accepts the suffix L of Python 2.
func (p *parser) size() int {
	p.remaining = strings.TrimLeft(p.remaining, blanks)
	digitCount := 0
	for digitCount < len(p.remaining) && p.remaining[digitCount] >= '0' && p.remaining[digitCount] <= '9' {
		digitCount++
	}
	size, err := strconv.Atoi(p.remaining[:digitCount])
	if err != nil {
		p.fail("want a size before %.20q", p.remaining)
		return 0
	}
	p.remaining = strings.TrimPrefix(p.remaining[digitCount:], "L")
	return size
}

// encodeHeader returns the start of a file: magic, version, length and text of the header. The array is row-major, and
// its type code is code. itemBytes is the size of a number or character. Blanks pad the text, so that the offset of the
// data is a multiple of 64 bytes.
func encodeHeader(code string, itemBytes int, shape []int) []byte {
	order := "<"
	switch {
	case itemBytes == 1:
		order = "|"
	case machineIsBigEndian:
		order = ">"
	}
	var dictionary strings.Builder
	fmt.Fprintf(&dictionary, "{'descr': '%s%s', 'fortran_order': False, 'shape': (", order, code)
	for i, size := range shape {
		if i > 0 {
			dictionary.WriteString(", ")
		}
		dictionary.WriteString(strconv.Itoa(size))
	}
	if len(shape) == 1 {
		dictionary.WriteByte(',')
	}
	dictionary.WriteString("), }")
	// Version 1 stores the length in two bytes, enough for maxRank sizes. A newline ends the text.
	const preambleBytes = 10                               // magic, version and length
	blankCount := 63 - (preambleBytes+dictionary.Len())%64 // 63: the newline is one byte
	text := dictionary.String() + strings.Repeat(" ", blankCount) + "\n"
	const majorVersion, minorVersion = 1, 0
	encoded := append([]byte(magic), majorVersion, minorVersion, byte(len(text)), byte(len(text)>>8))
	return append(encoded, text...)
}
