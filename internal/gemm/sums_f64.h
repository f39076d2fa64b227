// Sums across vectors of float64, for AVX2 and AVX-512: HSUM of X0 into its first lane, SUM4 of Y0 to Y3 to (DX).

#define HSUM \
	VHADDPD X0, X0, X0

#define SUM4 \
	VHADDPD Y1, Y0, Y0 \
	VHADDPD Y3, Y2, Y2 \
	VEXTRACTF128 $1, Y0, X1 \
	VEXTRACTF128 $1, Y2, X3 \
	VADDPD X1, X0, X0 \
	VADDPD X3, X2, X2 \
	VMOVUPD X0, (DX) \
	VMOVUPD X2, 16(DX)
