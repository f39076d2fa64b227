package diskcache

import (
	"bytes"
	"testing"
)

// FuzzEntry checks arbitrary files. A valid entry has exactly the bytes that its key and data have.
func FuzzEntry(f *testing.F) {
	key := Key{1, 2, 3}
	for _, data := range []string{"", "a", "some data"} {
		f.Add(append(headerOf(key, []byte(data)), data...))
	}
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, text []byte) {
		err := checkEntry(bytes.NewReader(text), int64(len(text)), key)
		isValid := len(text) > headerSize &&
			bytes.Equal(text, append(headerOf(key, text[headerSize:]), text[headerSize:]...))
		if (err == nil) != isValid {
			t.Errorf("valid: %t, %v", isValid, err)
		}
		if checkEntry(bytes.NewReader(text), int64(len(text))+1, key) == nil {
			t.Error("a truncated entry is valid")
		}
	})
}
