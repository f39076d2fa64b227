package npz

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/tensor"
)

// An .npy array has these parts. The text length is little-endian. In the text, descr gives the byte order of the
// elements.
//
//	magic           6 bytes
//	version         2 bytes: major and minor
//	text length     2 bytes in version 1, else 4 bytes
//	text            a Python dict, such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//	elements        in row-major or column-major order
const magic = "\x93NUMPY"

// machineIsBigEndian is set if this machine is big-endian.
var machineIsBigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// ReadNPY reads one array in the .npy format, versions 1 to 3, into fresh storage.
//
// size is the number of bytes in r, or negative if it is unknown. A known size must be the size of header and array
// together, and ReadNPY may allocate this much memory. If the size is unknown, memory grows as data arrive, and r must
// end after the array.
//
// Elements are converted to the machine's byte order. Column-major data keep their memory order and get column-major
// strides, so the result need not be contiguous.
func ReadNPY(r io.Reader, size int64) (*tensor.Tensor, error) {
	return readNPY(r, size, size, nil)
}

// ReadNPYFile reads the .npy file at path, as [ReadNPY] does. The errors name the file.
func ReadNPYFile(path string) (*tensor.Tensor, error) { return openNPY(path, ReadNPY) }

// NPYFileMeta returns dtype, shape and strides of the array in the .npy file at path. It reads only the header, and
// checks it as [ReadNPY] does.
func NPYFileMeta(path string) (tensor.Meta, error) { return openNPY(path, NPYMeta) }

// openNPY calls read with a file and its size. The errors name the file.
func openNPY[T any](path string, read func(io.Reader, int64) (T, error)) (T, error) {
	var zero T
	file, info, err := files.OpenRegular(path)
	if err != nil {
		return zero, err
	}
	defer file.Close()
	result, err := read(file, info.Size())
	if err != nil {
		return zero, fmt.Errorf("%s: %w", path, err)
	}
	return result, nil
}

// NPYMeta returns dtype, shape and strides of the array in r. size is the size of the file in bytes, as for [ReadNPY].
func NPYMeta(r io.Reader, size int64) (tensor.Meta, error) {
	meta, _, err := readMeta(r, size)
	return meta, err
}

// readMeta reads the header. If size is not negative, header and array must have exactly size bytes.
func readMeta(reader io.Reader, size int64) (tensor.Meta, header, error) {
	if reader == nil {
		return tensor.Meta{}, header{}, errors.New("the reader is nil")
	}
	head, start, err := readHeader(reader, size)
	if err != nil {
		return tensor.Meta{}, head, err
	}
	meta, err := head.meta()
	if dataBytes := int64(meta.Bytes()); err == nil && size >= 0 && dataBytes != size-start {
		err = fmt.Errorf("shape %s of %v takes %d bytes, but %d follow the header", tensor.ListString(meta.Shape), meta.DType,
			dataBytes, size-start)
	}
	return meta, head, err
}

// readNPY reads one array. size is the declared size, for example of an entry of a zip file. It may be wrong.
// trustedBytes is the number of bytes that certainly exist. Memory beyond this number is allocated as data arrive. If
// want is not nil, the array must have the dtype and shape of want, and all memory is allocated first.
func readNPY(reader io.Reader, size, trustedBytes int64, want *tensor.Meta) (t *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	meta, head, err := readMeta(reader, size)
	if err != nil {
		return nil, err
	}
	if want != nil {
		if meta.DType != want.DType || !slices.Equal(meta.Shape, want.Shape) {
			return nil, fmt.Errorf("the array is %v%s, want %v%s", meta.DType, tensor.ListString(meta.Shape), want.DType,
				tensor.ListString(want.Shape))
		}
		trustedBytes = int64(meta.Bytes())
	}
	storage, err := readStorage(reader, meta.Bytes(), trustedBytes)
	if err != nil {
		return nil, err
	}
	// One more read detects data after the array. At the end of a zip entry, it also verifies the checksum.
	var extra [1]byte
	if extraBytes, err := io.ReadFull(reader, extra[:]); extraBytes > 0 {
		return nil, errors.New("there are data after the array")
	} else if err != io.EOF {
		return nil, err
	}
	toNative(storage.Bytes(), head)
	return tensor.FromStorage(meta, storage.AsWeights())
}

// readHeader reads and parses all bytes before the data. start is the number of these bytes.
func readHeader(reader io.Reader, size int64) (head header, start int64, err error) {
	var fixed [12]byte // magic (6 bytes), version (2 bytes), length of the text (2 or 4 bytes)
	if err := readAll(reader, fixed[:8]); err != nil {
		return head, 0, err
	}
	if string(fixed[:6]) != magic {
		if string(fixed[:4]) == "PK\x03\x04" {
			return head, 0, errors.New("this is an archive, probably an .npz file, not a single .npy array")
		}
		return head, 0, errors.New("not an .npy array: wrong magic")
	}
	major, minor := fixed[6], fixed[7]
	if major < 1 || major > 3 || minor != 0 {
		return head, 0, fmt.Errorf("unknown .npy version %d.%d", major, minor)
	}
	lengthBytes := 4
	if major == 1 {
		lengthBytes = 2
	}
	if err := readAll(reader, fixed[8:8+lengthBytes]); err != nil {
		return head, 0, err
	}
	// In version 1 the length has two bytes, and the two bytes after it in fixed are 0.
	textBytes := int64(binary.LittleEndian.Uint32(fixed[8:]))
	start = 8 + int64(lengthBytes) + textBytes
	if textBytes > maxHeader || size >= 0 && start > size {
		return head, 0, fmt.Errorf("header claims %d bytes", textBytes)
	}
	text := make([]byte, textBytes)
	if err := readAll(reader, text); err != nil {
		return head, 0, err
	}
	head, err = parseHeader(string(text))
	return head, start, err
}

// readAll fills the buffer. If the reader ends before the buffer is full, it returns the error "truncated header".
func readAll(reader io.Reader, buffer []byte) error {
	_, err := io.ReadFull(reader, buffer)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("truncated header")
	}
	return err
}

// initialAlloc is the number of bytes that are allocated before any data has arrived.
const initialAlloc = 1 << 20

// readStorage reads dataBytes bytes into storage. The size of the storage never exceeds the greatest of three numbers:
// trustedBytes, initialAlloc, and twice the number of bytes that have arrived.
func readStorage(reader io.Reader, dataBytes int, trustedBytes int64) (*tensor.Storage, error) {
	initialBytes := max(initialAlloc, min(trustedBytes, math.MaxInt))
	storage := tensor.NewStorage(int(min(int64(dataBytes), initialBytes)))
	arrived := 0
	for {
		count, err := io.ReadFull(reader, storage.Bytes()[arrived:])
		arrived += count
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil, fmt.Errorf("truncated: %d of %d bytes of data", arrived, dataBytes)
		case err != nil:
			return nil, err
		case arrived == dataBytes:
			return storage, nil
		}
		larger := tensor.NewStorage(min(dataBytes, 2*arrived))
		copy(larger.Bytes(), storage.Bytes())
		storage = larger
	}
}

// toNative converts elements to the machine's byte order, and normalizes bools to 0 or 1, as kernels require.
func toNative(data []byte, head header) {
	if head.dtype == tensor.Bool {
		for i, element := range data {
			if element > 1 {
				data[i] = 1
			}
		}
		return
	}
	isBigEndian, hasOrder := head.byteOrder == '>', head.byteOrder == '<' || head.byteOrder == '>'
	if !hasOrder || isBigEndian == machineIsBigEndian {
		return
	}
	numberBytes := head.dtype.Size()
	if head.dtype.IsComplex() { // two numbers
		numberBytes /= 2
	}
	if numberBytes == 1 {
		return
	}
	for i := 0; i < len(data); i += numberBytes {
		slices.Reverse(data[i : i+numberBytes])
	}
}

// WriteNPY writes a value in row-major order as an .npy array of version 1. The bits of bfloat16 numbers are written as
// uint16.
func WriteNPY(w io.Writer, t *tensor.Tensor) error {
	if w == nil {
		return errors.New("the writer is nil")
	}
	if err := t.Check(); err != nil {
		return err
	}
	if len(t.Shape) > maxRank {
		return fmt.Errorf("%d dimensions: at most %d can be written", len(t.Shape), maxRank)
	}
	if _, err := w.Write(encodeHeader(codeOf(t.DType), t.DType.Size(), t.Shape)); err != nil {
		return err
	}
	return writeData(w, t)
}

// writeBlockBytes is the size, in bytes, of the row-major blocks in which a tensor is written.
const writeBlockBytes = 4 << 20

// writeData writes the elements in row-major order. It copies a tensor that is not row-major block by block.
func writeData(w io.Writer, t *tensor.Tensor) error {
	return t.EachBlock(writeBlockBytes, func(block []byte) error {
		_, err := w.Write(block)
		return err
	})
}
