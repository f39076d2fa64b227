package npz

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/graphrun/graphrun/tensor"
)

// WriteStrings writes strings in row-major order as an .npy array of version 1 with numpy's dtype U. Each character
// takes four bytes. NUL characters pad all strings to the length of the longest string. numpy drops trailing NUL
// characters when it reads strings.
func WriteStrings(w io.Writer, list []string, shape []int) error {
	if w == nil {
		return errors.New("the writer is nil")
	}
	if n := tensor.Numel(shape); n != len(list) || len(shape) > maxRank {
		return fmt.Errorf("got %d strings for shape %s", len(list), tensor.ListString(shape))
	}
	return writeStrings(w, shape, func(visit func(s string) error) error {
		for _, s := range list {
			if err := visit(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeStrings writes strings. each calls a function for each string, until the function returns an error.
func writeStrings(w io.Writer, shape []int, each func(visit func(s string) error) error) error {
	width := 1 // numpy has no strings of 0 characters
	err := each(func(s string) error {
		width = max(width, utf8.RuneCountInString(s))
		return nil
	})
	if err != nil {
		return err
	}
	const characterBytes = 4
	buffer := bufio.NewWriter(w)
	buffer.Write(encodeHeader(fmt.Sprintf("U%d", width), characterBytes, shape))
	err = each(func(s string) (err error) {
		var character [characterBytes]byte
		for _, r := range s {
			binary.NativeEndian.PutUint32(character[:], uint32(r))
			_, err = buffer.Write(character[:])
		}
		clear(character[:])
		for range width - utf8.RuneCountInString(s) {
			_, err = buffer.Write(character[:])
		}
		return err
	})
	if err != nil {
		return err
	}
	return buffer.Flush()
}

// Strings returns the strings of an array in row-major order. t was read from a file with numpy's dtype U or S. The
// last dimension of t has the characters (uint32) or bytes (uint8) of each string. As in numpy, trailing zeros do not
// belong to a string.
func Strings(t *tensor.Tensor) ([]string, error) {
	if t == nil || t.Rank() == 0 || t.DType != tensor.Uint32 && t.DType != tensor.Uint8 {
		return nil, errors.New("strings are arrays of uint32 or uint8 with a dimension for the characters")
	}
	width := t.Shape[t.Rank()-1]
	list := make([]string, tensor.Numel(t.Shape[:t.Rank()-1]))
	switch t.DType {
	case tensor.Uint8:
		data, err := tensor.ToSlice[uint8](t.Contiguous())
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i] = strings.TrimRight(string(data[i*width:(i+1)*width]), "\x00")
		}
	default:
		data, err := tensor.ToSlice[uint32](t.Contiguous())
		if err != nil {
			return nil, err
		}
		characters := make([]rune, width)
		for i := range list {
			for j, c := range data[i*width : (i+1)*width] {
				characters[j] = rune(min(c, utf8.MaxRune+1)) // numbers above MaxRune become U+FFFD
			}
			list[i] = strings.TrimRight(string(characters), "\x00")
		}
	}
	return list, nil
}
