package files

import (
	"context"
	"io"
	"io/fs"
	"os"
)

// maxPipe is the maximum number of bytes that are read from a pipe. There is a limit because the writer may never stop.
const maxPipe = 1 << 30

// ReadPipe reads all bytes of a named pipe. For any other path it reads nothing, and isPipe is false. In this case, the
// caller uses [Open].
//
// ReadPipe waits for a writer and its bytes. If ctx ends first, ReadPipe returns the cause of ctx, and a goroutine
// continues to wait. A nil ctx never ends.
func ReadPipe(ctx context.Context, path string) (data []byte, isPipe bool, err error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		return nil, false, nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := readPipe(ctx, path)
		read <- result{data, err}
	}()
	select {
	case r := <-read:
		return r.data, true, r.err
	case <-ctx.Done():
		return nil, true, context.Cause(ctx)
	}
}

// readPipe reads all bytes of a named pipe, at most maxPipe.
func readPipe(ctx context.Context, path string) ([]byte, error) {
	file, _, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(contextReader{ctx, file}, maxPipe+1))
	switch {
	case err != nil:
		return nil, WithPath(path, err)
	case len(data) > maxPipe:
		return nil, &fileError{path, "the pipe has more than 1 GiB, the maximum", nil}
	}
	return data, nil
}

// contextReader is a reader that fails after its context has ended, with the cause of the context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements [io.Reader].
func (c contextReader) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(b)
}
