// Package install puts what a real Kafka needs on this machine: Java, and the
// Kafka jars of one version from Maven, kept in a cache folder; and what
// consumers of other makers need: a Java compiler for a class of our own, and a
// Python package with librdkafka. Nothing else is built, and no container and no
// download page is used.
//
// Promises:
//
//	I1  A version's folder is either absent or complete: it is filled under
//	    another name and renamed, so that a killed process leaves no half of one.
//	I2  One process at a time fills a folder (a file lock); others wait for it
//	    and use what it made.
//	I3  A complete folder is used as it is: no network, no Maven.
//	I4  An error says what is missing and how to get it. Maven's own output goes
//	    to a log file that the error names; no registry address is repeated.
//
// The cache is $KLINK_LAB_CACHE, else klink under the user's cache folder; each
// version has its own folder kafka-VERSION there, with the jars of our own
// classes beside Kafka's, and each Python package a virtual environment.
package install
