package diskcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/edsrzf/mmap-go"

	"github.com/graphrun/graphrun/tensor"
)

// An entry's file has a header and the data:
//
//	 0  magic, which has the version of the format
//	16  key
//	48  size of the data, 8 bytes, little-endian
//	56  CRC-32C of the data
//	60  CRC-32C of the bytes before it
//	64  data
//
// CRC-32C detects all errors within 32 consecutive bits.
const (
	magic            = "graphrun cache 1"
	sizeOffset       = 48           // of the size of the data
	dataSumOffset    = 56           // of the checksum of the data
	headerSumOffset  = 60           // of the checksum of the header
	headerSize       = tensor.Align // so that the data are aligned
	entrySuffix      = ".entry"     // of the names of entries' files
	temporaryPattern = "write-*.temp"
	bufferSize       = 1 << 18 // fits in the cache of a core
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("the entry is damaged")

// headerOf returns the header of an entry.
func headerOf(k Key, data []byte) []byte {
	header := append(make([]byte, 0, headerSize), magic...)
	header = append(header, k[:]...)
	header = binary.LittleEndian.AppendUint64(header, uint64(len(data)))
	header = binary.LittleEndian.AppendUint32(header, crc32.Checksum(data, castagnoli))
	return binary.LittleEndian.AppendUint32(header, crc32.Checksum(header, castagnoli))
}

// checkEntry reads an entry of size bytes, and returns an error if it is not a valid entry of the key.
func checkEntry(entry io.Reader, size int64, key Key) error {
	var header [headerSize]byte
	if _, err := io.ReadFull(entry, header[:]); err != nil {
		return errDamaged
	}
	isOfKey := string(header[:len(magic)]) == magic && bytes.Equal(header[len(magic):sizeOffset], key[:])
	headerSum := binary.LittleEndian.Uint32(header[headerSumOffset:])
	isIntact := crc32.Checksum(header[:headerSumOffset], castagnoli) == headerSum
	sizeOfData := binary.LittleEndian.Uint64(header[sizeOffset:])
	if !isOfKey || !isIntact || sizeOfData == 0 || sizeOfData != uint64(size-headerSize) {
		return errDamaged
	}
	sum, buffer := uint32(0), make([]byte, min(size, bufferSize))
	for remaining := size - headerSize; remaining > 0; {
		block := buffer[:min(remaining, int64(len(buffer)))]
		if _, err := io.ReadFull(entry, block); err != nil {
			return errDamaged
		}
		sum, remaining = crc32.Update(sum, castagnoli, block), remaining-int64(len(block))
	}
	if sum != binary.LittleEndian.Uint32(header[dataSumOffset:]) {
		return errDamaged
	}
	return nil
}

// openEntry verifies and maps an entry. To verify the entry, it reads the file instead of the mapping, because mapped
// pages take memory once they are read.
func openEntry(path string, key Key) (mmap.MMap, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the mapping outlives the descriptor
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() <= headerSize || info.Size() > math.MaxInt {
		return nil, errDamaged
	}
	if err := checkEntry(file, info.Size(), key); err != nil {
		return nil, err
	}
	touch(path, info) // records the time of the last use, for eviction
	return mmap.MapRegion(file, int(info.Size()), mmap.RDONLY, 0, 0)
}

// path returns the path of an entry's file.
func (c *Cache) path(k Key) string { return filepath.Join(c.dir, k.name()) }

// write writes an entry, and returns its data. If another process has written the entry in the meantime, with the same
// data, its file stays. All processes then share the memory of this file.
func (c *Cache) write(key Key, data []byte) (*tensor.Storage, error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	name, err := c.writeTemporary(headerOf(key, data), data)
	if err != nil {
		return nil, err
	}
	existing := c.Find(key)
	if existing != nil && bytes.Equal(existing.Bytes(), data) {
		return existing, os.Remove(name)
	}
	if err := os.Rename(name, c.path(key)); err != nil {
		_ = os.Remove(name)
		if existing != nil {
			return existing, nil // Windows cannot replace a file that a process has mapped
		}
		return nil, err
	}
	c.forget(key) // Find then maps the new file
	return c.Find(key), nil
}

// writeTemporary writes a temporary file, syncs it, and returns its name. If it fails, it removes the file.
func (c *Cache) writeTemporary(header, data []byte) (name string, err error) {
	file, err := os.CreateTemp(c.dir, temporaryPattern)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(header)
	if err == nil {
		_, err = file.Write(data)
	}
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return file.Name(), err
}
