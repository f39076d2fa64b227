//go:build noasm || (!amd64 && !arm64)

package team

// pause is a moment of waiting.
func pause() {
	for range 16 {
		continue
	}
}
