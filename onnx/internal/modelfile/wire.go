package modelfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/graphrun/graphrun/internal/interrupt"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Field numbers of protobuf messages on the path from the model to the data of a weight.
const (
	modelGraph       protowire.Number = 7
	graphInitializer protowire.Number = 5
	tensorRawData    protowire.Number = 9
)

// errUnexpected is the error for a message that is truncated or has unexpected fields. On this error, readModel decodes
// the whole file at once. This either succeeds or reports the mistake.
var errUnexpected = errors.New("not the fields of a model")

// readAhead is the number of bytes that are read at a time outside the data of weights.
const readAhead = 1 << 16

// wire reads a model file field by field, in protobuf's wire format. Each weight is read directly into separate,
// aligned memory. Decoding the whole file would copy weights twice, to unaligned addresses.
//
// A field is a tag (field number and wire type) and a value. A value of wire type BytesType begins with its length.
// Messages are such values, so the model is a tree of byte ranges:
//
//	file: ... [field 7: graph: ... [field 5: initializer: ... [field 9: raw data] ...] ...] ...
//
// readModel descends along this path (decodeModel, decodeGraph, decodeTensor). It records the spans of the raw data,
// decodes all other fields by the protobuf decoder, and reads the spans last (readWeights).
type wire struct {
	ctx       context.Context // may be nil
	src       io.ReaderAt
	size      int                      // size of the file
	storage   StorageFunc              // may be nil
	buf       []byte                   // the part of the file that was read last
	bufOffset int                      // offset of buf in the file
	rawSpans  map[*pb.TensorProto]span // the place of each weight's raw data in the file
}

// span is a range of bytes in the file.
type span struct{ begin, end int }

func (s span) len() int { return s.end - s.begin }

// readModel reads a model of size bytes. It returns the raw data of the main graph's initializers separately from their
// messages. Files with unexpected fields, such as groups, are decoded as a whole. The messages then keep the raw data.
func readModel(ctx context.Context, src io.ReaderAt, size int, storage StorageFunc) (_ *pb.ModelProto,
	_ map[*pb.TensorProto]*tensor.Storage, err error) {
	defer tensor.CatchMemory(&err)
	defer interrupt.Catch(&err)
	reader := wire{ctx: ctx, src: src, size: size, storage: storage, rawSpans: map[*pb.TensorProto]span{}}
	model, err := reader.decodeModel()
	if errors.Is(err, errUnexpected) {
		clear(reader.rawSpans)
		model, err = reader.decodeWhole()
	}
	if err != nil {
		return nil, nil, err
	}
	data, err := reader.readWeights()
	return model, data, err
}

// decodeModel reads the model without the raw data of its initializers.
func (w *wire) decodeModel() (*pb.ModelProto, error) {
	proto := &pb.ModelProto{}
	unprocessed, err := w.readFields(span{0, w.size}, func(number protowire.Number, value span) (bool, error) {
		if number != modelGraph {
			return false, nil
		}
		if proto.Graph == nil {
			proto.Graph = &pb.GraphProto{}
		}
		return true, w.decodeGraph(proto.Graph, value)
	})
	if err != nil {
		return nil, err
	}
	return proto, mergeFields(unprocessed, proto)
}

// decodeGraph reads the main graph into g. If the model has several graph fields, they are merged, as protobuf
// requires.
func (w *wire) decodeGraph(g *pb.GraphProto, message span) error {
	unprocessed, err := w.readFields(message, func(number protowire.Number, value span) (bool, error) {
		if number != graphInitializer {
			return false, nil
		}
		proto := &pb.TensorProto{}
		g.Initializer = append(g.Initializer, proto)
		return true, w.decodeTensor(proto, value)
	})
	if err != nil {
		return err
	}
	return mergeFields(unprocessed, g)
}

// decodeTensor reads a weight without its raw data, and records the span of the raw data. If there are several raw data
// fields, the last field is used, as protobuf requires.
func (w *wire) decodeTensor(proto *pb.TensorProto, message span) error {
	unprocessed, err := w.readFields(message, func(number protowire.Number, value span) (bool, error) {
		if number != tensorRawData {
			return false, nil
		}
		w.rawSpans[proto] = value
		return true, nil
	})
	if err != nil {
		return err
	}
	return mergeFields(unprocessed, proto)
}

// mergeFields decodes fields into a message that may already have other fields.
func mergeFields(fields []byte, m pb.Message) error {
	if pb.Unmarshal(fields, m) != nil {
		return errUnexpected
	}
	return nil
}

// readFields reads the fields of a message. It calls process for each field of wire type BytesType. process reports
// whether it has processed the field. unprocessed has all other fields, encoded.
func (w *wire) readFields(message span, process func(n protowire.Number, value span) (bool, error)) (unprocessed []byte,
	err error) {
	for offset := message.begin; offset < message.end; {
		interrupt.Check(w.ctx)
		field, err := w.fieldAt(offset, message.end)
		if err != nil {
			return nil, err
		}
		offset = field.end
		if field.isBytes {
			processed, err := process(field.number, field.value)
			if err != nil {
				return nil, err
			}
			if processed {
				continue
			}
		}
		encoded, err := w.bytes(field.span)
		if err != nil {
			return nil, err
		}
		unprocessed = append(unprocessed, encoded...)
	}
	return unprocessed, nil
}

// wireField is a field of a message.
type wireField struct {
	span    // of the tag and the value
	number  protowire.Number
	isBytes bool // whether the wire type is BytesType
	value   span // if isBytes: the value without its length
}

// maxHead is the maximum size, in bytes, of a tag and the varint after it. Each has at most 10 bytes.
const maxHead = 20

// fieldAt decodes the tag and the length of the field at an offset in a message, which ends at messageEnd.
func (w *wire) fieldAt(offset, messageEnd int) (wireField, error) {
	head, err := w.bytes(span{offset, min(offset+maxHead, messageEnd)})
	if err != nil {
		return wireField{}, err
	}
	number, kind, tagSize := protowire.ConsumeTag(head)
	if tagSize < 0 || kind == protowire.StartGroupType {
		return wireField{}, errUnexpected
	}
	if kind != protowire.BytesType {
		valueSize := protowire.ConsumeFieldValue(number, kind, head[tagSize:])
		if valueSize < 0 {
			return wireField{}, errUnexpected
		}
		return wireField{span: span{offset, offset + tagSize + valueSize}, number: number}, nil
	}
	length, lengthSize := protowire.ConsumeVarint(head[tagSize:])
	begin := offset + tagSize + lengthSize // of the value
	if lengthSize < 0 || length > uint64(messageEnd-begin) {
		return wireField{}, errUnexpected
	}
	end := begin + int(length)
	return wireField{span: span{offset, end}, number: number, isBytes: true, value: span{begin, end}}, nil
}

// bytes returns the bytes of a span. The slice is valid until the next call of bytes.
func (w *wire) bytes(s span) ([]byte, error) {
	if s.begin < w.bufOffset || s.end > w.bufOffset+len(w.buf) { // not all in buf
		// Read ahead, but not beyond the end of the file.
		n := min(max(s.len(), readAhead), w.size-s.begin)
		if cap(w.buf) < n {
			w.buf = make([]byte, n)
		}
		w.buf, w.bufOffset = w.buf[:n], s.begin
		if err := readFull(w.src, w.buf, s.begin); err != nil {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	return w.buf[s.begin-w.bufOffset : s.end-w.bufOffset], nil
}

// readFull fills buffer with the bytes of src that begin at offset.
func readFull(src io.ReaderAt, buffer []byte, offset int) error {
	n, err := src.ReadAt(buffer, int64(offset))
	switch {
	case n == len(buffer):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return errors.New("the file was truncated while it was read")
	}
	return err
}

// decodeWhole decodes the whole file at once.
func (w *wire) decodeWhole() (*pb.ModelProto, error) {
	all, err := w.bytes(span{0, w.size})
	if err != nil {
		return nil, err
	}
	model := &pb.ModelProto{}
	return model, notModelError(all, pb.Unmarshal(all, model))
}

// StorageFunc returns the data of a large weight: n bytes of src that begin at offset. It is called from several
// goroutines. The data must not be written.
type StorageFunc = func(src io.ReaderAt, offset int64, n int) (*tensor.Storage, error)

// minStorage is the minimum size in bytes of a large weight, which a StorageFunc may read.
const minStorage = 16 << 10

// readWeights reads the raw data of the initializers, with separate memory for each initializer. If w.storage is set,
// it provides the data of large weights.
func (w *wire) readWeights() (map[*pb.TensorProto]*tensor.Storage, error) {
	var pieces []piece // of the weights that w.storage does not provide
	data := make(map[*pb.TensorProto]*tensor.Storage, len(w.rawSpans))
	var lock sync.Mutex
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for proto, rawSpan := range w.rawSpans {
		interrupt.Check(w.ctx)
		if w.storage != nil && rawSpan.len() >= minStorage {
			group.Go(func() error {
				storage, err := readStorage(w.ctx, w.storage, w.src, rawSpan.begin, rawSpan.len())
				lock.Lock()
				defer lock.Unlock()
				data[proto] = storage
				return err
			})
			continue
		}
		storage := tensor.NewWeights(rawSpan.len())
		lock.Lock()
		data[proto] = storage
		lock.Unlock()
		pieces = appendPieces(pieces, storage.Bytes(), rawSpan.begin)
	}
	// The order of w.rawSpans, a map, is random. Ascending offsets profit from the read-ahead of the operating system.
	sorted.Func(pieces, func(a, b piece) int { return cmp.Compare(a.offset, b.offset) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return data, readPieces(w.ctx, w.src, pieces)
}

// readStorage calls a StorageFunc, and checks its result.
func readStorage(ctx context.Context, f StorageFunc, src io.ReaderAt, offset, n int) (*tensor.Storage, error) {
	if err := interrupt.Err(ctx); err != nil {
		return nil, err
	}
	s, err := f(src, int64(offset), n)
	if err == nil && s.Len() != n {
		err = fmt.Errorf("a weight has %d bytes, and its storage %d", n, s.Len())
	}
	return s, err
}

// piece is a range of the file that a worker reads in one call.
type piece struct {
	buffer []byte // where the bytes are stored
	offset int    // offset in the file
}

// longestPiece is the maximum number of bytes of a piece. Pieces of this size are small enough to occupy all workers,
// and large enough to need few calls.
const longestPiece = 4 << 20

// appendPieces divides a range of the file into pieces, and appends the pieces to list. The range begins at offset, has
// the length of buffer, and will be read into buffer.
func appendPieces(list []piece, buffer []byte, offset int) []piece {
	for len(buffer) > 0 {
		n := min(len(buffer), longestPiece)
		list = append(list, piece{buffer[:n], offset})
		buffer, offset = buffer[n:], offset+n
	}
	return list
}

// readPieces reads pieces of a file concurrently. This is faster than one read, because page faults in fresh memory
// take most of the time.
func readPieces(ctx context.Context, src io.ReaderAt, pieces []piece) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range pieces {
		group.Go(func() error {
			if err := interrupt.Err(ctx); err != nil {
				return err
			}
			return readFull(src, p.buffer, p.offset)
		})
	}
	return group.Wait()
}
