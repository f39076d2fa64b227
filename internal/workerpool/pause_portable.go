//go:build noasm || (!amd64 && !arm64)

package workerpool

// pause spends a moment in a spin loop.
func pause() {
	for range 16 {
		continue
	}
}
