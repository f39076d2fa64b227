// Sums across vectors of float32, for AVX2 and AVX-512: HSUM of X0 into its first lane, SUM4 of Y0 to Y3 to (DX).

#define HSUM \
	VHADDPS X0, X0, X0 \
	VHADDPS X0, X0, X0

#define SUM4 \
	VHADDPS Y1, Y0, Y0 \
	VHADDPS Y3, Y2, Y2 \
	VHADDPS Y2, Y0, Y0 \
	VEXTRACTF128 $1, Y0, X1 \
	VADDPS X1, X0, X0 \
	VMOVUPS X0, (DX)
