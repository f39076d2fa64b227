package files

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/graphrun/graphrun/internal/sorted"
)

// Recorder is a file system that records the names of opened files. It may be used from several goroutines at once.
type Recorder struct {
	fsys  fs.FS
	mu    sync.Mutex
	names map[string]bool // the names of opened files
}

// Record returns a Recorder that opens files of fsys.
func Record(fsys fs.FS) *Recorder { return &Recorder{fsys: fsys, names: map[string]bool{}} }

// Open opens and records a file.
func (r *Recorder) Open(name string) (fs.File, error) {
	file, err := r.fsys.Open(name)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.names[name] = true
	}
	return file, err
}

// Digest returns the sha256 of the file with the given name, in hexadecimal digits. If other files were opened, it
// returns the sha256 of a text. The text has the digest of this file, followed by the name and the digest of each other
// file.
func (r *Recorder) Digest(name string) (string, error) {
	digest, err := r.digestOf(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	others := sorted.Keys(r.names)
	if err != nil || len(others) == 0 || len(others) == 1 && others[0] == name {
		return digest, err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, digest)
	for _, other := range others {
		if other == name {
			continue
		}
		digest, err := r.digestOf(other)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%q %s\n", other, digest)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// digestOf returns the sha256 of a file, in hexadecimal digits.
func (r *Recorder) digestOf(name string) (string, error) {
	file, err := OpenFS(r.fsys, name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file.Reader()); err != nil {
		return "", WithPath(name, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
