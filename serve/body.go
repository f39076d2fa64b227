package serve

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/graphrun/graphrun/tensor"
)

// body is the body of a request. Its memory comes from Server.bodies, because the page faults of new memory for an
// image take longer than reading the image from the connection.
type body struct {
	bytes   []byte          // part of storage
	storage *tensor.Storage // must be released when bytes and the tensors over them are no longer used
}

// The memory of a body grows while the body is received. It has firstReserved bytes at first, and later bodyGrowth
// times the received bytes, but at least minGrown bytes. It never exceeds the announced length, or MaxBody without one.
// A client that announces more bytes than it sends thus occupies little memory.
const (
	firstReserved = 64 << 10
	minGrown      = 1 << 20
	bodyGrowth    = 4
)

// readBody reads the body of a request. The binary data after the JSON are aligned to [tensor.Align].
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (result body, err error) {
	defer func() { // after CatchMemory
		if err != nil && result.storage != nil {
			_ = result.storage.Release()
			result = body{}
		}
	}()
	defer tensor.CatchMemory(&err)
	maxBody := min(s.options.MaxBody, math.MaxInt-2*tensor.Align)
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close")
		if r.Header.Get("Expect") == "" { // else the client has not sent the body
			s.dropBody(w, r)
		}
		return body{}, &http.MaxBytesError{Limit: maxBody}
	}
	length := int(maxBody)
	if r.ContentLength >= 0 {
		length = int(r.ContentLength)
	}
	jsonLength, _ := strconv.Atoi(r.Header.Get(jsonLengthHeader)) // decodeRequest reports errors
	// The binary data begin at padding + jsonLength, which is a multiple of Align.
	padding := -jsonLength & (tensor.Align - 1)
	reader := http.MaxBytesReader(w, r.Body, maxBody)
	for capacity := min(length, firstReserved); ; capacity = min(length, max(minGrown, bodyGrowth*len(result.bytes))) {
		// The additional byte lets the last call of Read return io.EOF, or the error of a body that exceeds MaxBody.
		const zeroed = false
		storage := s.bodies.Take(padding+capacity+1, zeroed)
		grown := storage.Bytes()[padding:]
		received := copy(grown, result.bytes)
		if result.storage != nil {
			_ = result.storage.Release()
		}
		var count int
		count, err = fill(reader, grown[received:])
		received += count
		result = body{grown[:received], storage}
		if err == io.EOF {
			return result, nil
		}
		if err == nil && received > length {
			err = errors.New("the body is longer than its announced length")
		}
		if err != nil {
			if errors.As(err, new(*http.MaxBytesError)) {
				s.dropBody(w, r)
			}
			return result, err
		}
	}
}

// maxDropped is the maximum number of bytes that dropBody reads.
const maxDropped = 64 << 20

// dropBody reads and drops the rest of a body that is too long, for at most one second. Many clients read the response
// only after they have sent the body; they would find the connection closed.
func (s *Server) dropBody(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(time.Second, s.options.Timeout)))
	_, _ = io.CopyN(io.Discard, r.Body, maxDropped)
}

// fill reads until dst is full or an error occurs. It returns the number of bytes that were read.
func fill(reader io.Reader, dst []byte) (count int, err error) {
	for err == nil && count < len(dst) {
		var n int
		n, err = reader.Read(dst[count:])
		count += n
	}
	return count, err
}
