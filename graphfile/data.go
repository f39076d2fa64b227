package graphfile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/tensor"
)

// parseData reads nested or flat numbers in row-major order. base is the offset of raw in the file. A complex element
// is a pair of numbers. If all elements are real, each may be one number. Infinities and NaN are written as strings:
// "NaN", "Infinity", "-Infinity". If code is not nil, the elements are strings, and the tensor has their codes. If
// parseData fails, mistakeOffset is the offset of the mistake in the file. For
// example:
//
//	[[1, 2], [3, "NaN"]] or [1, 2, 3, "NaN"]    float32 of shape [2, 2]
//	[[1, 0.5], [0, -1]]                         complex64 of shape [2]: 1+0.5i and -1i
func parseData(raw []byte, base int, meta tensor.Meta, code func(s string) int64) (t *tensor.Tensor,
	mistakeOffset int, err error) {
	var firstErr error
	firstOffset := base
	fail := func(offset int, err error) {
		if firstErr == nil {
			firstErr, firstOffset = err, base+offset
		}
	}
	r := &dataReader{scan: newScanner(raw, fail), base: base, meta: meta, code: code}
	if _, err := r.readList(0); err != nil {
		fail(0, err)
	}
	if firstErr != nil {
		return nil, firstOffset, firstErr
	}
	t, err = r.tensor()
	return t, base, err
}

// dataReader reads the numbers of a constant into a row-major tensor. Numbers are parsed directly in the constant's
// dtype. Therefore the shortest text that identifies an element gives this element exactly.
type dataReader struct {
	scan      *scanner
	base      int // offset of the data in the file
	meta      tensor.Meta
	floats    []float64            // elements of a floating-point dtype, or both parts of each complex element
	ints      []int64              // elements of other dtypes; a uint64 is stored as the int64 with the same bits
	code      func(s string) int64 // returns the code of a string; nil for numbers
	isMixed   bool                 // a list has both lists and numbers as members
	isNested  bool                 // the outermost list holds lists
	outerLen  int                  // number of members of the outermost list
	raggedErr error                // the error of the first list whose length does not match the shape, or nil
}

// readList reads a number, or a list of lists or numbers, at the given nesting depth. memberCount is the number of
// members of the list, or -1 for a number.
func (r *dataReader) readList(depth int) (memberCount int, err error) {
	offset := r.scan.offset()
	if r.scan.dec.PeekKind() != '[' {
		return -1, r.readNumber(offset)
	}
	firstLen := -2 // the result of readList for the first member; -2 if there is no member
	err = r.scan.array(func(int) error {
		innerLen, err := r.readList(depth + 1)
		if memberCount++; memberCount == 1 {
			firstLen = innerLen
		}
		if (innerLen < 0) != (firstLen < 0) {
			r.isMixed = true
		}
		return err
	})
	if depth == 0 {
		r.isNested, r.outerLen = firstLen >= 0, memberCount
	}
	shape := r.meta.Shape
	if depth < len(shape) && memberCount != shape[depth] && r.raggedErr == nil {
		r.raggedErr = fmt.Errorf("data: a list holds %d members, where shape %s wants %d", memberCount,
			tensor.ListString(shape), shape[depth])
	}
	return memberCount, err
}

// readNumber reads a number of the data and appends it to the floats or ints.
func (r *dataReader) readNumber(offset int) error {
	token, err := r.scan.dec.ReadToken()
	if err != nil {
		return err
	}
	switch {
	case len(r.floats)+len(r.ints) > 2*r.meta.Numel(): // a complex element may have two numbers
		return nil // dataReader.tensor reports the surplus numbers
	case r.code != nil && token.Kind() == '"':
		r.ints = append(r.ints, r.code(token.String()))
	case r.code != nil:
		r.scan.report(offset, fmt.Errorf("data: want strings, got %s", kindName(token.Kind())))
	case r.meta.DType.IsFloat() || r.meta.DType.IsComplex():
		x, err := r.float(token)
		if err != nil {
			r.scan.report(offset, err)
		}
		r.floats = append(r.floats, x)
	default:
		i, err := r.integer(token)
		if err != nil {
			r.scan.report(offset, err)
		}
		r.ints = append(r.ints, i)
	}
	return nil
}

// float returns a number of a floating-point or complex dtype.
func (r *dataReader) float(token jsontext.Token) (float64, error) {
	switch token.Kind() {
	case 't':
		return 1, nil
	case 'f':
		return 0, nil
	case '"':
		if x, ok := numerals.AnySpecial(token.String()); ok { // "NaN", "Infinity" or "-Infinity"
			return x, nil
		}
	case '0': // a number
		bits := 64
		if dtype := r.meta.DType; dtype != tensor.Float64 && dtype != tensor.Complex128 {
			// Parsing for float64 first would round twice.
			bits = 32
		}
		x, err := strconv.ParseFloat(token.String(), bits)
		if err != nil {
			return x, fmt.Errorf("data: %s is too large for %v", token.String(), r.meta.DType)
		}
		return x, nil
	}
	return 0, notNumberError(token)
}

// integer returns a number of another dtype. It rejects numbers that do not fit the dtype.
func (r *dataReader) integer(token jsontext.Token) (int64, error) {
	switch token.Kind() {
	case 't':
		return 1, nil
	case 'f':
		return 0, nil
	case '0': // a number
	case '"':
		if _, ok := numerals.AnySpecial(token.String()); ok {
			return 0, fmt.Errorf("data: %q does not fit %v", token.String(), r.meta.DType)
		}
		return 0, notNumberError(token)
	default:
		return 0, notNumberError(token)
	}
	dtype, text := r.meta.DType, token.String()
	outOfRange := fmt.Errorf("data: %s does not fit %v", text, dtype)
	if dtype == tensor.Uint64 {
		if unsigned, err := strconv.ParseUint(text, 10, 64); err == nil {
			return int64(unsigned), nil
		}
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		// text has a point or an exponent, or is out of range. Its value must be an integer below 2^63.
		x, err := strconv.ParseFloat(text, 64)
		if i = int64(x); err != nil || float64(i) != x || x >= 1<<63 {
			return 0, outOfRange
		}
	}
	if dtype == tensor.Bool {
		if i != 0 {
			i = 1
		}
		return i, nil
	}
	if least, greatest := integerRange(dtype); i < least || i > greatest {
		return 0, outOfRange
	}
	return i, nil
}

// integerRange returns the range of an integer dtype. For uint64 the range ends at MaxInt64, because larger numbers of
// this dtype are not parsed as int64.
func integerRange(dtype tensor.DType) (least, greatest int64) {
	bits := 8 * dtype.Size()
	switch {
	case dtype.IsSigned():
		return int64(-1) << (bits - 1), int64(1)<<(bits-1) - 1
	case bits == 64:
		return 0, math.MaxInt64
	}
	return 0, int64(1)<<bits - 1
}

// notNumberError returns the error for a token that is not a number.
func notNumberError(token jsontext.Token) error {
	if token.Kind() == '"' {
		return fmt.Errorf("data: want numbers, got %q", token.String())
	}
	return fmt.Errorf("data: want numbers, got %s", kindName(token.Kind()))
}

// tensor checks the number of elements and the nesting of lists, and converts the elements to a tensor. The lists must
// be nested according to the shape, or there must be a single list.
func (r *dataReader) tensor() (*tensor.Tensor, error) {
	meta := tensor.New(r.meta.DType, r.meta.Shape...)
	elementCount, numberCount := meta.Numel(), len(r.floats)+len(r.ints)
	// arePairs reports whether each complex element is given by two numbers.
	arePairs := meta.DType.IsComplex() && numberCount == 2*elementCount && elementCount > 0
	isPairList := arePairs && r.outerLen == elementCount // a flat list of pairs is accepted for every shape
	switch {
	case r.isMixed:
		return nil, errors.New("data: lists and numbers are mixed")
	case r.isNested && r.raggedErr != nil && !isPairList:
		return nil, r.raggedErr
	case numberCount != elementCount && !arePairs:
		return nil, fmt.Errorf("data holds %s numbers, shape %s wants %d", countText(numberCount, 2*elementCount),
			tensor.ListString(meta.Shape), elementCount)
	}
	t := tensor.Empty(meta)
	if elementCount == 0 {
		return t, nil
	}
	srcDType, src := tensor.Int64, unsafe.Pointer(unsafe.SliceData(r.ints))
	switch {
	case arePairs:
		srcDType, src = tensor.Complex128, unsafe.Pointer(unsafe.SliceData(r.floats))
	case r.floats != nil:
		srcDType, src = tensor.Float64, unsafe.Pointer(unsafe.SliceData(r.floats))
	}
	convert := tensor.Converter(meta.DType, srcDType) // of addresses, strides in bytes, a number of elements
	convert(t.Pointer(), src, meta.DType.Size(), srcDType.Size(), elementCount)
	return t, nil
}

// countText formats a number of elements. Above `limit` the number is not exact, because readNumber drops surplus
// numbers.
func countText(n, limit int) string {
	if n > limit {
		return "more than " + strconv.Itoa(limit)
	}
	return strconv.Itoa(n)
}
