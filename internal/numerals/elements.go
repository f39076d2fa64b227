package numerals

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/graphrun/graphrun/tensor"
)

// Setter returns a function that converts the nonempty text of a JSON number or bool to an element of a dtype. The
// function stores the element in the first bytes of dst. Setter returns nil for complex dtypes.
func Setter(dtype tensor.DType) func(dst, text []byte) error { return setters[dtype] }

var setters = map[tensor.DType]func(dst, text []byte) error{
	tensor.Bool: func(dst, text []byte) error {
		switch string(text) {
		case "true", "1":
			dst[0] = 1
		case "false", "0":
			dst[0] = 0
		default:
			return errors.New("want true or false")
		}
		return nil
	},
	tensor.Uint8: unsigned(8), tensor.Uint16: unsigned(16), tensor.Uint32: unsigned(32), tensor.Uint64: unsigned(64),
	tensor.Int8: signed(8), tensor.Int16: signed(16), tensor.Int32: signed(32), tensor.Int64: signed(64),
	tensor.Float16: float(64, func(dst []byte, x float64) {
		binary.NativeEndian.PutUint16(dst, uint16(tensor.HalfOf(float32(x))))
	}),
	tensor.BFloat16: float(64, func(dst []byte, x float64) {
		binary.NativeEndian.PutUint16(dst, uint16(tensor.BF16Of(float32(x))))
	}),
	tensor.Float32: float(32, func(dst []byte, x float64) {
		binary.NativeEndian.PutUint32(dst, math.Float32bits(float32(x)))
	}),
	tensor.Float64: float(64, func(dst []byte, x float64) { binary.NativeEndian.PutUint64(dst, math.Float64bits(x)) }),
}

// putInteger stores the low bits of an integer, in the byte order of the machine.
func putInteger(dst []byte, bits int, number uint64) {
	switch bits {
	case 8:
		dst[0] = byte(number)
	case 16:
		binary.NativeEndian.PutUint16(dst, uint16(number))
	case 32:
		binary.NativeEndian.PutUint32(dst, uint32(number))
	default:
		binary.NativeEndian.PutUint64(dst, number)
	}
}

// unsigned and signed return setters of integers of the given number of bits.
func unsigned(bits int) func(dst, text []byte) error {
	return func(dst, text []byte) error {
		number, err := strconv.ParseUint(string(text), 10, bits)
		if err != nil {
			return fmt.Errorf("want an unsigned integer of %d bits", bits)
		}
		putInteger(dst, bits, number)
		return nil
	}
}

func signed(bits int) func(dst, text []byte) error {
	return func(dst, text []byte) error {
		number, err := strconv.ParseInt(string(text), 10, bits)
		if err != nil {
			return fmt.Errorf("want an integer of %d bits", bits)
		}
		putInteger(dst, bits, uint64(number))
		return nil
	}
}

// float returns a setter of floating-point numbers. It parses the text as a float of 32 or 64 bits, and stores the
// number by put. It rejects numbers beyond the range of this float (a larger float16 becomes infinite), and texts such
// as NaN that do not begin with a digit or -.
func float(bits int, put func(dst []byte, number float64)) func(dst, text []byte) error {
	return func(dst, text []byte) error {
		number, err := strconv.ParseFloat(string(text), bits)
		if err != nil || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
			return errors.New("want a number within the range of the datatype")
		}
		put(dst, number)
		return nil
	}
}
