package diskcache

import (
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/graphrun/graphrun/internal/sorted"
)

const (
	// touchInterval is the precision of the time of the last use of an entry.
	touchInterval = time.Minute
	// A temporary file older than abandonedAfter is assumed to be abandoned: no process writes it any more.
	abandonedAfter = time.Hour
)

// touch sets the modification time of a file to now, if it is older than touchInterval. This time is the time of the
// entry's last use. touch fails silently in a directory that cannot be written.
func touch(path string, info fs.FileInfo) {
	if now := time.Now(); now.Sub(info.ModTime()) > touchInterval {
		_ = os.Chtimes(path, now, now)
	}
}

// evict removes the least recently used entries until the total size of the entries in the directory is within the
// limit. A process that has mapped a removed entry can still read it. evict lists the directory, because other
// processes also write entries. A listing takes less time than the fsync of a new entry.
func (c *Cache) evict() {
	c.evicting.Lock()
	defer c.evicting.Unlock()
	size, list := c.listEntries()
	if size <= c.options.MaxBytes {
		return
	}
	sorted.Func(list, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range list {
		if size <= c.options.MaxBytes {
			return
		}
		if os.Remove(filepath.Join(c.dir, info.Name())) == nil {
			size -= info.Size()
		}
	}
}

// listEntries returns the entries and their total size, and removes abandoned temporary files. It ignores other files.
func (c *Cache) listEntries() (size int64, entries []fs.FileInfo) {
	files, _ := os.ReadDir(c.dir)
	for _, file := range files {
		info, err := file.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another process removed the file, or it is not a regular file
		}
		if isEntry(file.Name()) {
			size, entries = size+info.Size(), append(entries, info)
		} else if isAbandoned(info) {
			_ = os.Remove(filepath.Join(c.dir, file.Name()))
		}
	}
	return size, entries
}

// isEntry reports whether a file has the name of an entry.
func isEntry(name string) bool {
	digits, ok := strings.CutSuffix(name, entrySuffix)
	b, err := hex.DecodeString(digits)
	return ok && err == nil && len(b) == len(Key{})
}

// isAbandoned reports whether a file is an abandoned temporary file.
func isAbandoned(info fs.FileInfo) bool {
	isTemporary, _ := filepath.Match(temporaryPattern, info.Name()) // the pattern is valid
	return isTemporary && time.Since(info.ModTime()) > abandonedAfter
}
