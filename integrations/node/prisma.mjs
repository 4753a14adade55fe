import entry from './prisma.js';

export const { fromPrisma } = entry;
